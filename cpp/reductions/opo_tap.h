#pragma once

#include "kernel/past_predictions.h"
#include "kernel/weight_history.h"
#include "vw/core/vw_fwd.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace opo_cmab
{
/// Sees each example as the base learner sees it, with all interactions expanded. It is below generate_interactions,
/// which expands wildcards and restores them on the way up; a reduction further up would miss them.
class tap
{
public:
  /// \param budget of the history
  tap(VW::workspace& all, uint32_t budget) : history(budget), _all(all) {}

  weight_history history;  ///< of the labelled rounds learnt so far

  /// From now on, turns the features of each predicted example into its past predictions, one example per action.
  void start_noting(std::size_t actions);
  /// \return the past predictions
  past_predictions& stop_noting();

  void predict(VW::LEARNER::learner& base, VW::example& ec);
  template <void (*learn_or_update)(VW::LEARNER::learner& base, VW::example& ec)>
  void learn(VW::LEARNER::learner& base, VW::example& ec);

private:
  VW::workspace& _all;
  uint64_t _mask = 0;  ///< of the weights, which do not exist yet when the stack is set up
  uint32_t _stride_shift = 0;
  bool _noting = false;
  std::size_t _noted = 0;  ///< examples
  past_predictions _past;
  std::vector<weight_history::change> _learnt;

  void look_up_layout();
  uint64_t number_of(uint64_t index) const;
  static void note_feature(tap& self, float x, uint64_t index);
  static void note_weight(tap& self, float x, uint64_t index);
};
}  // namespace opo_cmab

namespace VW
{
namespace reductions
{
std::shared_ptr<VW::LEARNER::learner> opo_tap_setup(VW::setup_base_i& stack_builder);
}  // namespace reductions
}  // namespace VW
