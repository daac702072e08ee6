#pragma once

#include "kernel/policy.h"
#include "kernel/segments.h"

#include <cstdint>
#include <limits>
#include <vector>

// Costs in any unit: the cost range maps them to losses, its lower end to 0 and its upper end to 1. Pure math,
// without VW.
namespace opo_cmab
{
constexpr double LARGEST_START = 0.25;  ///< of cost_range::start
constexpr double ROOM_ABOVE = 0.25;     ///< of cost_range::shift
constexpr double EXPECTED_AS = 100.;    ///< newcomers, of cost_range::newcomer_loss

/// The cost range, from low to high: the mean plus and minus two standard deviations, within the lowest and the highest
/// cost so far. Costs outside of the limits, if given, are clipped to them.
///
/// At click rates of 20 to 80 % the range contains all costs. If a few costs are far from the others, as with rare
/// sales or heavy tails, it is much narrower: a range with all costs would leave little of it to the usual ones.
class cost_range
{
public:
  bool tames = true;  ///< whether costs that are far from all others count as nearer

  void limit_from_below(double limit) { _lower_limit = limit; }
  void limit_from_above(double limit) { _upper_limit = limit; }
  /// Clips a cost to the limits.
  double clip(double cost) const;

  /// What a cost counts as: clipped to the limits, and, if it is beyond all costs so far by more than ten times their
  /// spread, as the nearest of these. It may be wrong, such as a sensor's -9999 among clicks, and would spoil range and
  /// regression for a long time. Only the first two such costs are doubted: later ones are clipped at ten times the
  /// spread, which then grows.
  double tame(double cost) const;

  /// Learns from a cost. The range moves only if one of its ends is off by more than a quarter of the width: so it
  /// moves rarely.
  /// \return what the cost counts as (tame)
  double observe(double cost);

  /// Whether two different costs have been seen.
  bool known() const { return _state.min < _state.max; }
  /// The lowest and the highest cost so far.
  double min() const { return _state.min; }
  double max() const { return _state.max; }
  /// The limits, or the lowest and the highest cost so far if there are none.
  double least() const;
  double most() const;
  double low() const { return _state.first + _state.low; }
  double high() const { return _state.first + _state.high; }

  /// 0 for low, 1 for high, outside of [0, 1] for unusual costs. The range must be known.
  double loss(double cost) const;

  /// A prediction above this is of a model that does not know the action here: it exceeds the loss of every cost so far
  /// by more than the width of the range. The range must be known.
  double largest_plausible_loss() const { return loss(max()) + 1.; }

  /// By how much the range has to move up, as a share of its width, for a context whose best action has this loss. The
  /// range has room for a quarter of its width above that action, as far as there have been costs above the range: else
  /// all actions would be at its upper end, and look alike. It must be known.
  double shift(double lowest_loss) const;

  /// The loss that a model should predict for an untried action: a quarter of the range, which is good but not perfect,
  /// or half the mean loss when the range last moved, if that is less. If most costs are near the best, a quarter would
  /// look bad.
  double start() const { return _state.start; }

  /// Learns what a newcomer cost: an action of which the regression knew no feature when it was played.
  /// \param counts_as as returned by observe
  void observe_newcomer(double counts_as);
  bool knows_newcomers() const { return _state.newcomers > 0; }

  /// What a newcomer's loss is expected to be: the mean of those before it, if there have been many. The range must be
  /// known.
  /// \param start what the model predicts for a newcomer, which counts as if a hundred had had that loss
  double newcomer_loss(double start) const;

  /// Everything learnt, as plain data.
  class state
  {
  public:
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();
    double first = 0.;  ///< the first cost; the rest is relative to it, so that an offset costs no precision
    double low = 0.;
    double high = 0.;
    double sum = 0.;
    double squares = 0.;
    uint64_t count = 0;
    double start = LARGEST_START;
    uint64_t far_costs = 0;  ///< how many were beyond all others by more than ten times their spread
    double newcomer_sum = 0.;
    uint64_t newcomers = 0;
  };
  const state& save() const { return _state; }
  /// \return false if this is not a valid range
  bool restore(const state& saved);

private:
  double _lower_limit = -std::numeric_limits<double>::infinity();
  double _upper_limit = std::numeric_limits<double>::infinity();
  state _state;
};

/// The cost range of each past predictor, so that its predictions can be converted when the range moves.
class range_history
{
public:
  class entry
  {
  public:
    uint32_t predictor;  ///< the first one with this range, counted from 0
    double low;          ///< relative to the first cost, as is high
    double high;
    double start;
  };

  /// Adds the range of the next predictor, if it differs from the last one. Predictors before the first known range
  /// count as learnt in it.
  void append(uint32_t predictor, const cost_range& range);

  /// Converts past losses to the current range. A loss is start + prediction (or the prediction, without_start) in the
  /// range of its time. A segment in which the range changes uses the average of its ranges.
  std::vector<loss_map::piece> pieces(const segments& past, bool without_start) const;

  const std::vector<entry>& entries() const { return _entries; }
  /// \return false if append cannot have made these ranges
  bool restore(std::vector<entry> entries);

private:
  std::vector<entry> _entries;
};
}  // namespace opo_cmab
