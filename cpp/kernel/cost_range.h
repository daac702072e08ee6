#pragma once

#include "kernel/policy.h"
#include "kernel/segments.h"

#include <cstdint>
#include <limits>
#include <vector>

// Costs in any unit: the range that they lie in, which makes losses in [0, 1] of them. Pure math, nothing of VW.
namespace opo_cmab
{
constexpr double LARGEST_START = 0.25;  ///< of cost_range::start

/// The range of the costs. An end that is not given is learnt: it moves out to the costs that are seen.
class cost_range
{
public:
  void fix_min(double min);
  void fix_max(double max);

  /// Widens the range to hold a cost. A learnt end moves by at least an eighth of the width, so that costs which grow
  /// for ever change the range a few hundred times at most.
  /// \return whether the range has changed
  bool observe(double cost);

  bool known() const { return _min < _max; }
  bool fixed() const { return _min_is_fixed && _max_is_fixed; }
  double min() const { return _min; }
  double max() const { return _max; }
  double width() const { return _max - _min; }

  /// In [0, 1]; a cost outside of a range that was given is clipped to it. The range must be known.
  double loss(double cost) const;

  /// Where a model is to start: what it is to predict, as a loss, of an action that was never tried. A quarter of the
  /// range, which looks good but not perfect; or half the mean loss when the range last changed, if that is less: where
  /// most costs are near the best and few are far from it, a quarter would look bad. If both ends are given, a quarter.
  double start() const { return _start; }

  /// All that is learnt, as plain data.
  class state
  {
  public:
    double min;
    double max;
    double start;
    double sum;  ///< of all costs, each less min
    uint64_t count;
  };
  state save() const { return {_min, _max, _start, _sum, _count}; }
  /// \return false if this is no range, or not one with the ends that are given
  bool restore(const state& saved);

private:
  bool _min_is_fixed = false;
  bool _max_is_fixed = false;
  double _min = std::numeric_limits<double>::infinity();
  double _max = -std::numeric_limits<double>::infinity();
  double _start = LARGEST_START;
  double _sum = 0.;
  uint64_t _count = 0;
};

/// The cost ranges that past predictors were learnt in. A predictor keeps its meaning when the range widens.
class range_history
{
public:
  class entry
  {
  public:
    uint32_t predictor;  ///< the first one of this range, counted from 0
    double min;
    double max;
    double start;
  };

  /// The range as it is when a predictor is learnt, where it differs from the last. What comes before the first known
  /// range counts as learnt in it.
  void append(uint32_t predictor, const cost_range& range);

  /// What past losses are in the last range, a loss being start + prediction (or the prediction, without_start) in the
  /// range of its time. A segment in which the range changes has the average of its ranges.
  std::vector<loss_map::piece> pieces(const segments& past, bool without_start) const;

  const std::vector<entry>& entries() const { return _entries; }
  /// \return false if these are no ranges that append could have made
  bool restore(std::vector<entry> entries);

private:
  std::vector<entry> _entries;
};
}  // namespace opo_cmab
