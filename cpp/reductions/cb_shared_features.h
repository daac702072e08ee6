#pragma once

#include "vw/core/constant.h"
#include "vw/core/multi_ex.h"
#include "vw/core/vw_fwd.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace opo_cmab
{
/// Which namespaces all actions of a round share, and whether the regression can do without these by themselves. Once
/// it could not, it learns them from then on: a regression that had them in some rounds only would learn the rest
/// wrong.
class shared_features
{
public:
  explicit shared_features(VW::workspace& all) : _all(all) {}

  /// Looks at the actions of the next round.
  /// \param learn whether to remember what it sees: predicting alone changes nothing
  void start_round(const VW::multi_ex& actions, bool learn);

  using term = std::vector<VW::namespace_index>;
  using interactions = std::vector<term>;
  /// Decides what to leave out in this round.
  /// \param action with its interactions
  /// \param learn whether to remember if it has to be learnt
  void plan(const VW::example& action, bool learn);
  bool leaves_out() const { return _leaves_out; }

  /// Before an action is learnt from: whether all its weights are 0.
  void look_for_newcomer(VW::example& action);
  bool is_linear = false;        ///< whether the learner is. Others may have no weights to look at
  bool learnt_newcomer = false;  ///< whether they were, of the action learnt from last

  using namespaces = std::bitset<VW::NUM_NAMESPACES>;

  // In place of a number of indicators:
  static constexpr uint8_t VARIES = 255;
  static constexpr uint8_t ONLY_AN_ID = 254;  ///< each action had one feature, with the value 1

  // What is learnt of that which actions share:
  static constexpr uint8_t NOTHING = 0;
  static constexpr uint8_t ALL = 1;
  static constexpr uint8_t MOST_INTERACTIONS = 2;  ///< by models of format 6, and if there once was no choice

  /// What rounds so far have shown. Saved as these bytes.
  class memory
  {
  public:
    std::array<uint8_t, VW::NUM_NAMESPACES> differing{};  ///< in some round, two actions had other features there
    /// How many features with the value 1 each action had there, once actions differed; ONLY_AN_ID if there was nothing
    /// else; VARIES if not all had the same number, or none.
    std::array<uint8_t, VW::NUM_NAMESPACES> indicators{};
    uint8_t learns = NOTHING;  ///< ALL: what actions share has been learnt, and will be

    /// Whether actions have never differed, for example because there was only one in each round.
    bool undecided() const { return std::find(differing.begin(), differing.end(), 1) == differing.end(); }
  };
  memory remembered;

private:
  friend class without_shared;

  VW::workspace& _all;

  // In the current round:
  memory _round;                           ///< what is known
  std::vector<VW::namespace_index> _seen;  ///< in some action
  static constexpr std::size_t NOT_PLANNED = SIZE_MAX;
  std::size_t _planned_terms = NOT_PLANNED;  ///< VW may generate interactions while it goes through the actions
  bool _leaves_out = false;
  bool _looked_for_crossed = false;
  bool _some_in_common = false;  ///< actions have the same feature in a namespace in which they differ

  /// What the last plan was made from, and what it learns.
  class last_plan
  {
  public:
    memory round;
    std::vector<VW::namespace_index> seen;
    interactions terms;
    uint8_t learns;
  };
  last_plan _last_plan{};

  // If it leaves out:
  std::array<bool, VW::NUM_NAMESPACES> _ignore_linear{};
  interactions _kept;

  void look_at(std::size_t ns, const VW::multi_ex& actions);
  bool can_do_without(const interactions& terms);
  static bool is_crossed(const term& shared, const interactions& terms, const namespaces& ids);
  bool repeats_an_id(const term& t, const interactions& terms) const;
  void warn_if_nothing_is_crossed(const VW::example& action);
  bool is_as_planned(const interactions& terms) const;
};

/// As long as it lives, the regression does not see what was planned to be left out.
class without_shared
{
public:
  without_shared(shared_features& shared, VW::example& action);
  ~without_shared();
  without_shared(const without_shared&) = delete;
  without_shared& operator=(const without_shared&) = delete;

private:
  shared_features& _shared;
  VW::example& _action;
  const bool _ignored_some;
  shared_features::interactions* const _all_terms;
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
