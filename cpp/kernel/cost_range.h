#pragma once

#include "kernel/policy.h"
#include "kernel/segments.h"

#include <cstdint>
#include <limits>
#include <vector>

// Costs in any unit: the range that makes losses of them, 0 for its lower end and 1 for its upper end. Pure math,
// nothing of VW.
namespace opo_cmab
{
constexpr double LARGEST_START = 0.25;  ///< of cost_range::start

/// The range of the usual costs, from low to high: two standard deviations to either side of the mean, within the
/// lowest and the highest cost so far. Limits may be given; costs beyond are clipped to them.
///
/// For clicks at a rate of 20 to 80 % the range is that of all costs. Where few costs are far from the others, as with
/// rare sales or heavy tails, it is much narrower: with all costs in the range, the usual ones would differ by little.
class cost_range
{
public:
  void limit_from_below(double limit) { _lower_limit = limit; }
  void limit_from_above(double limit) { _upper_limit = limit; }
  /// To the limits.
  double clip(double cost) const;

  /// Learns from a cost. The range moves when one of its ends is off by more than a quarter of the width: so it moves
  /// rarely, and what models have learnt keeps its meaning most of the time.
  void observe(double cost);

  /// Whether there is anything to compare: two different costs.
  bool known() const { return _state.min < _state.max; }
  /// The lowest and the highest cost so far.
  double min() const { return _state.min; }
  double max() const { return _state.max; }
  /// The limits, or these where none are given.
  double least() const;
  double most() const;
  double low() const { return _state.first + _state.low; }
  double high() const { return _state.first + _state.high; }

  /// From 0 for low to 1 for high, and beyond for unusual costs. The range must be known.
  double loss(double cost) const;

  /// Where a model is to start: the loss that it is to predict of an action that was never tried. A quarter of the
  /// range, which looks good but not perfect; or half the mean loss when the range last moved, if that is less: where
  /// most costs are near the best and few are far from it, a quarter would look bad.
  double start() const { return _state.start; }

  /// All that is learnt, as plain data.
  class state
  {
  public:
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();
    double first = 0.;  ///< the first cost. What follows is of differences to it, so that no offset costs precision
    double low = 0.;
    double high = 0.;
    double sum = 0.;
    double squares = 0.;
    uint64_t count = 0;
    double start = LARGEST_START;
  };
  const state& save() const { return _state; }
  /// \return false if this is no range
  bool restore(const state& saved);

private:
  double _lower_limit = -std::numeric_limits<double>::infinity();
  double _upper_limit = std::numeric_limits<double>::infinity();
  state _state;
};

/// The cost ranges that past predictors were learnt in. A predictor keeps its meaning when the range moves.
class range_history
{
public:
  class entry
  {
  public:
    uint32_t predictor;  ///< the first one of this range, counted from 0
    double low;          ///< less the first cost, and so is high
    double high;
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
