#pragma once

#include "kernel/cost_range.h"
#include "kernel/policy.h"
#include "reductions/explorer_state.h"
#include "vw/core/vw_fwd.h"
#include "vw/io/logger.h"

#include <memory>

namespace opo_cmab
{
/// Maps costs to the labels that the regression learns, and its scores to the losses that an explorer sees.
///
///   unit   loss      label             what the explorer sees
///   range  squared   +-(loss - start)  start +- score: the loss, 0 and 1 are the ends of the cost range
///   range  logistic  loss or 1 - loss  sigmoid(+-score); the loss is clipped to [0, 1]
///   raw    squared   cost              (score - min) / (max - min); min and max: the limits, or the costs so far
///   raw    logistic  cost              the same, with label_min + (label_max - label_min) sigmoid(score)
///
/// With raw costs under logistic loss, VW's explorers see costs, not losses.
///
/// The sign is chosen when the second different cost arrives. Until then all costs are equal, either the best or the
/// worst one; they are learnt as one label, and the sign then makes that label right. (A linear learner that starts
/// from 0 learns the negative weights from the negative labels.)
class cost_unit
{
public:
  cost_range range;
  bool raw = false;
  bool logistic = false;
  bool shows_costs = false;
  bool negative = false;  ///< the sign
  float label_min = 0.f;  ///< of the logistic loss
  float label_max = 1.f;

  /// The costs with a loss of 0 and of 1, and whether they are known yet.
  double low() const { return raw ? range.least() : range.low(); }
  double high() const { return raw ? range.most() : range.high(); }
  bool known() const { return raw ? range.least() < range.most() : range.known(); }

  /// Learns the range.
  /// \return what the cost counts as
  double observe(double cost);
  float label(double cost) const;
  /// The loss, or cost, that the explorer sees for a score. A score of 0 is that of a newcomer.
  float seen(float score) const;
  /// The inverse: the score, and the label; the derivative of seen() at that score.
  float score_of(float seen) const;
  float label_of(float seen) const;
  float slope_at(float seen) const;

  /// By how much the range moves up for a decision, as a share of its width.
  double shift(double lowest_loss) const { return raw ? 0. : range.shift(lowest_loss); }
  /// How past predictions become losses, in a range that has moved up.
  opo_cmab::loss_map loss_map(const range_history& ranges, const segments& past, double shift) const;

private:
  double sign() const { return negative ? -1. : 1.; }
  double newcomer_loss() const;
  double offset() const;
  double scale() const;
};
}  // namespace opo_cmab

namespace VW
{
namespace reductions
{
std::shared_ptr<VW::LEARNER::learner> cb_cost_unit_setup(VW::setup_base_i& stack_builder);
}  // namespace reductions
}  // namespace VW
