#include "reductions/cb_shared_features.h"

#include "reductions/explorer_setup.h"
#include "reductions/parts.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/example.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/memory.h"
#include "vw/core/scope_exit.h"
#include "vw/core/setup_base.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

/*
What all actions of a round share, the features of the context and the constant, cannot change which action looks best.
But it takes a part of each step of the regression, and moves the predictions for actions that were not played: the more
a good action is played, the better all others look. So it is left out where the regression can do without: if each
namespace that is shared is crossed with one that identifies the actions, the crossed features can say all that it says.

A namespace identifies the actions if all of them have the same number of indicators there, features with the value 1:
the weights of these can then make up for a constant. With one tag here and three there they could not.

There are two reductions. The one above cb_adf sees the actions of a round side by side. The one below
generate_interactions sees each example with its interactions, and hides what is shared from the regression. It is the
same as --ignore_linear (shared namespaces) --noconstant. An interaction among shared namespaces is left out too, but
only if another one crosses just that with the actions.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace opo_cmab
{
namespace
{
bool same(const VW::features& a, const VW::features& b)
{
  return a.size() == b.size() && std::equal(a.indices.begin(), a.indices.end(), b.indices.begin()) &&
      std::equal(a.values.begin(), a.values.end(), b.values.begin());
}
}  // namespace

constexpr uint8_t shared_features::VARIES;

void shared_features::look_at(std::size_t ns, const VW::multi_ex& actions)
{
  const auto& first = actions[0]->feature_space[ns];
  const auto differs = [&](const VW::example* action) { return !same(first, action->feature_space[ns]); };
  if (!_round.differing[ns]) { _round.differing[ns] = std::any_of(actions.begin() + 1, actions.end(), differs); }
  if (!_round.differing[ns]) { return; }
  auto& indicators = _round.indicators[ns];
  for (const auto* action : actions)
  {
    if (indicators == VARIES) { return; }
    const auto& values = action->feature_space[ns].values;
    const auto own = std::count(values.begin(), values.end(), 1.f);
    const bool as_before = indicators == 0 || indicators == own;
    indicators = own > 0 && own < VARIES && as_before ? static_cast<uint8_t>(own) : VARIES;
  }
}

void shared_features::start_round(const VW::multi_ex& actions, bool learn)
{
  _round = _memory;
  _seen.clear();
  namespaces present;
  for (const auto* action : actions)
  {
    for (const auto ns : action->indices)
    {
      if (present[ns]) { continue; }
      present.set(ns);
      _seen.push_back(ns);
      look_at(ns, actions);
    }
  }
  if (learn) { _memory = _round; }
  _planned_terms = NOT_PLANNED;
}

/// Whether some interaction crosses the term with a namespace that identifies the actions.
bool shared_features::is_crossed(const term& shared, const interactions& terms, const namespaces& ids)
{
  const auto crosses = [&](const term& longer)
  {
    if (longer.size() != shared.size() + 1) { return false; }
    const auto id = std::find_if(longer.begin(), longer.end(), [&](VW::namespace_index ns) { return ids[ns]; });
    if (id == longer.end()) { return false; }
    term rest(longer.begin(), id);
    rest.insert(rest.end(), id + 1, longer.end());
    return std::is_permutation(rest.begin(), rest.end(), shared.begin());
  };
  return std::any_of(terms.begin(), terms.end(), crosses);
}

/// Decides what to leave out in this round.
/// \param terms the interactions
void shared_features::plan(const interactions& terms)
{
  if (_planned_terms == terms.size()) { return; }
  _planned_terms = terms.size();
  _ignore_linear = _all.feature_tweaks_config.ignore_linear;
  namespaces ids;
  bool ids_are_learnt = false;  // by themselves
  for (const auto ns : _seen)
  {
    if (!_round.differing[ns] || _round.indicators[ns] == VARIES) { continue; }
    ids.set(ns);
    ids_are_learnt |= !_ignore_linear[ns];
  }
  _leaves_out = false;
  for (const auto ns : _seen)
  {
    if (_round.differing[ns]) { continue; }
    _leaves_out = ns == VW::details::CONSTANT_NAMESPACE ? ids_are_learnt : is_crossed({ns}, terms, ids);
    if (!_leaves_out) { return; }
    _ignore_linear[ns] = true;
  }
  if (!_leaves_out) { return; }
  const auto is_shared = [&](VW::namespace_index ns) { return !_round.differing[ns]; };
  const auto is_left_out = [&](const term& t)
  { return std::all_of(t.begin(), t.end(), is_shared) && is_crossed(t, terms, ids); };
  _kept.clear();
  std::remove_copy_if(terms.begin(), terms.end(), std::back_inserter(_kept), is_left_out);
}

template <typename Call>
auto shared_features::hide(VW::example& action, Call call) -> decltype(call())
{
  if (!_leaves_out) { return call(); }
  auto& tweaks = _all.feature_tweaks_config;
  auto* all_terms = action.interactions;
  const bool ignored_some = tweaks.ignore_some_linear;
  const auto swap = [&] { std::swap(tweaks.ignore_linear, _ignore_linear); };
  auto restore = VW::scope_exit(
      [&]
      {
        swap();
        tweaks.ignore_some_linear = ignored_some;
        action.interactions = all_terms;
      });
  swap();
  tweaks.ignore_some_linear = true;
  action.interactions = &_kept;
  return call();
}
}  // namespace opo_cmab

namespace
{
using opo_cmab::shared_features;

class cb_shared_features
{
public:
  cb_shared_features(shared_features& shared, learner& base, uint32_t saved_version)
      : _shared(shared)
      , _state("shared", base, saved_version)
  {
  }

  void predict(learner& base, VW::multi_ex& actions)
  {
    _shared.start_round(actions, false);
    base.predict(actions);
  }

  void learn(learner& base, VW::multi_ex& actions)
  {
    _shared.start_round(actions, true);
    base.learn(actions);
  }

  void save_load(VW::io_buf& io, bool read, bool text);

private:
  shared_features& _shared;
  opo_cmab::explorer_state _state;
};

void cb_shared_features::save_load(VW::io_buf& io, bool read, bool text)
{
  if (io.num_files() == 0 || text) { return; }
  if (!read)
  {
    const auto& memory = _shared.save();
    const auto& indicators = memory.indicators;
    _state.save(io, memory.differing.to_string() + std::string(indicators.begin(), indicators.end()));
    return;
  }
  std::string bytes;
  if (!_state.load(io, bytes)) { return; }
  const std::string differing = bytes.substr(0, VW::NUM_NAMESPACES);
  if (bytes.size() != 2 * VW::NUM_NAMESPACES || differing.find_first_not_of("01") != std::string::npos)
  {
    _state.throw_damaged("it has the wrong size");
  }
  shared_features::memory memory;
  memory.differing = shared_features::namespaces(differing);
  std::copy(bytes.begin() + VW::NUM_NAMESPACES, bytes.end(), memory.indicators.begin());
  _shared.restore(memory);
}

void predict(cb_shared_features& data, learner& base, VW::multi_ex& actions) { data.predict(base, actions); }
void learn(cb_shared_features& data, learner& base, VW::multi_ex& actions) { data.learn(base, actions); }
void save_load(cb_shared_features& data, VW::io_buf& io, bool read, bool text) { data.save_load(io, read, text); }

void predict_below(shared_features& data, learner& base, VW::example& action)
{
  data.plan(*action.interactions);
  data.hide(action, [&] { base.predict(action); });
}
void learn_below(shared_features& data, learner& base, VW::example& action)
{
  data.plan(*action.interactions);
  data.hide(action, [&] { base.learn(action); });
}
void update_below(shared_features& data, learner& base, VW::example& action)
{
  data.plan(*action.interactions);
  data.hide(action, [&] { base.update(action); });
}
/// As planned for the prediction, and with its interactions: VW does not expand wildcards for sensitivities.
float sensitivity_below(shared_features& data, learner& base, VW::example& action)
{
  return data.hide(action, [&] { return base.sensitivity(action); });
}
}  // namespace

std::shared_ptr<learner> VW::reductions::cb_shared_features_setup(VW::setup_base_i& stack_builder)
{
  options_i& options = *stack_builder.get_options();
  auto& parts = opo_cmab::parts_of(stack_builder);
  std::string mode;
  option_group_definition new_options("[Reduction] Contextual Bandit Shared Features");
  new_options.add(
      make_option("cb_shared_features", mode)
          .keep()
          .necessary()
          .one_of({"auto", "learn"})
          .help("auto: the regression leaves out what all actions of a round share, features of the context and the "
                "constant, if they are crossed with features that identify the actions (-q). It cannot change which "
                "action is best. learn: learn it, as VW's own explorers do. Default: auto for --opo_cmab, --fastcb and "
                "--adacb, learn with --cb_cost_unit raw"));
  if (!options.add_parse_and_check_necessary(new_options)) { return nullptr; }
  if (!parts.explorer_is_ours) { THROW("--cb_shared_features needs --opo_cmab, --fastcb or --adacb: add one of them"); }
  if (options.was_supplied("opo_paper") && mode != "learn")
  {
    THROW("--opo_paper implies --cb_shared_features learn, not " << mode << ": leave out --cb_shared_features");
  }
  if (mode == "learn") { return nullptr; }

  parts.leaves_out_shared = true;
  auto base = require_multiline(stack_builder.setup_base_learner());
  if (!opo_cmab::first_nonlinear(*base).empty()) { return base; }         // crossed features do not say the same there
  const uint32_t saved = parts.saved_state >= 6 ? parts.saved_state : 0;  // earlier formats have no such section
  return make_reduction_learner(VW::make_unique<cb_shared_features>(*parts.shared, *base, saved), base, learn, predict,
      stack_builder.get_setupfn_name(cb_shared_features_setup))
      .set_learn_returns_prediction(base->learn_returns_prediction)
      .set_save_load(save_load)
      .build();
}

std::shared_ptr<learner> VW::reductions::cb_shared_features_below_setup(VW::setup_base_i& stack_builder)
{
  auto& parts = opo_cmab::parts_of(stack_builder);
  if (!parts.leaves_out_shared) { return nullptr; }

  auto base = require_singleline(stack_builder.setup_base_learner());
  auto data = VW::make_unique<shared_features>(*stack_builder.get_all_pointer());
  parts.shared = data.get();
  return make_reduction_learner(
      std::move(data), base, learn_below, predict_below, stack_builder.get_setupfn_name(cb_shared_features_below_setup))
      .set_learn_returns_prediction(base->learn_returns_prediction)
      .set_update(update_below)
      .set_sensitivity(sensitivity_below)
      .build();
}
