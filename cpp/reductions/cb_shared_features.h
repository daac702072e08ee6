#pragma once

#include "reductions/explorer_state.h"
#include "vw/core/constant.h"
#include "vw/core/multi_ex.h"
#include "vw/core/vw_fwd.h"

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
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

  using term = std::vector<VW::namespace_index>;
  using interactions = std::vector<term>;
  void plan(const interactions& terms);

  /// Calls something without what all actions of the round share, if that was planned.
  template <typename Call>
  auto hide(VW::example& action, Call call) -> decltype(call());

  using namespaces = std::bitset<VW::NUM_NAMESPACES>;
  static constexpr uint8_t VARIES = 255;
  /// What rounds so far have shown.
  class memory
  {
  public:
    namespaces differing;  ///< in some round, two actions had other features there
    /// How many features with the value 1 each action had there, once actions differed; VARIES if not all had the same
    /// number, or none.
    std::array<uint8_t, VW::NUM_NAMESPACES> indicators{};
  };
  const memory& save() const { return _memory; }
  void restore(const memory& saved) { _memory = saved; }

private:
  VW::workspace& _all;
  memory _memory;

  // In the current round:
  memory _round;                           ///< what is known
  std::vector<VW::namespace_index> _seen;  ///< in some action
  static constexpr std::size_t NOT_PLANNED = SIZE_MAX;
  std::size_t _planned_terms = NOT_PLANNED;  ///< VW may generate interactions while it goes through the actions
  bool _leaves_out = false;
  // If it leaves out:
  std::array<bool, VW::NUM_NAMESPACES> _ignore_linear{};
  interactions _kept;

  void look_at(std::size_t ns, const VW::multi_ex& actions);
  static bool is_crossed(const term& shared, const interactions& terms, const namespaces& ids);
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
