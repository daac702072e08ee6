#pragma once

#include "reductions/explorer_state.h"
#include "vw/core/constant.h"
#include "vw/core/multi_ex.h"
#include "vw/core/vw_fwd.h"

#include <array>
#include <bitset>
#include <cstddef>
#include <memory>
#include <vector>

namespace opo_cmab
{
/// Which namespaces the actions of a round share, and whether the regression can do without these by themselves.
class shared_features
{
public:
  explicit shared_features(VW::workspace& all) : _all(all) {}

  /// Looks at the actions of the next round.
  /// \param learn whether to remember what it sees: predicting alone changes nothing
  void start_round(const VW::multi_ex& actions, bool learn);

  /// Calls the base with an example, without what all actions of the round share.
  template <typename Call>
  auto without(VW::example& action, Call call) -> decltype(call());

  using namespaces = std::bitset<VW::NUM_NAMESPACES>;
  /// What rounds so far have shown.
  class memory
  {
  public:
    namespaces differing;  ///< in some round, two actions had other features there
    namespaces vague;      ///< in some round, an action had no feature with the value 1 there

    bool operator==(const memory& other) const { return differing == other.differing && vague == other.vague; }
  };
  const memory& save() const { return _memory; }
  void restore(const memory& saved) { _memory = saved; }

private:
  using interactions = std::vector<std::vector<VW::namespace_index>>;

  VW::workspace& _all;
  memory _memory;

  memory _round;        ///< what is known in the current round
  namespaces _present;  ///< in the current round

  // The plan for rounds like the current one, for as long as nothing that it is made from changes:
  memory _planned_round;
  namespaces _planned_present;
  std::size_t _planned_terms = 0;  ///< interactions that VW generates
  bool _planned = false;
  bool _leaves_out = false;
  std::array<bool, VW::NUM_NAMESPACES> _ignore_linear{};
  interactions _kept;

  void look_at(std::size_t ns, const VW::multi_ex& actions);
  void plan(const interactions& terms);
  bool can_leave_out(const namespaces& shared, const interactions& terms) const;
};
}  // namespace opo_cmab

namespace VW
{
namespace reductions
{
std::shared_ptr<VW::LEARNER::learner> cb_shared_features_setup(VW::setup_base_i& stack_builder);
std::shared_ptr<VW::LEARNER::learner> cb_shared_features_below_setup(VW::setup_base_i& stack_builder);
}  // namespace reductions
}  // namespace VW
