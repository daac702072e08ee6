#pragma once

#include "vw/core/vw_fwd.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace opo_cmab
{
/// The steps of the replay behind a decision. Matrices have a row for each step and a column for each action.
class explanation
{
public:
  double min_cost = std::numeric_limits<double>::quiet_NaN();  ///< the current cost range; NaN until it is known
  double max_cost = std::numeric_limits<double>::quiet_NaN();
  std::vector<uint64_t> first_rounds;  ///< of each step; the first round is 0
  std::vector<uint64_t> rounds;        ///< in each step; 1 without a budget
  std::vector<double> losses;          ///< predicted by the model of the round, mapped to [0, 1] but not clipped
  std::vector<double> bonuses;
  std::vector<double> policies;  ///< before each step, and after the last
};

/// The explanations of several decisions: CCB and slates make one for each slot.
class explanations
{
public:
  std::vector<explanation> decisions;
  std::size_t most_steps = std::numeric_limits<std::size_t>::max();  ///< a decision that takes more throws
};

/// While it lives, decisions that this thread makes with --opo_cmab append their steps to the target. The thread and
/// not the workspace, because a workspace has no place where an object of ours could be found.
class explaining
{
public:
  explicit explaining(explanations& target);
  ~explaining();
  explaining(const explaining&) = delete;
  explaining& operator=(const explaining&) = delete;
};
}  // namespace opo_cmab

namespace VW
{
namespace reductions
{
std::shared_ptr<VW::LEARNER::learner> cb_explore_adf_opo_cmab_setup(VW::setup_base_i& stack_builder);
}  // namespace reductions
}  // namespace VW
