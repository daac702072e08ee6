#include "reductions/cb_shared_features.h"

#include "reductions/explorer_setup.h"
#include "reductions/parts.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/example.h"
#include "vw/core/global_data.h"
#include "vw/core/io_buf.h"
#include "vw/core/learner.h"
#include "vw/core/memory.h"
#include "vw/core/metric_sink.h"
#include "vw/core/reductions/gd.h"
#include "vw/core/setup_base.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

/*
What all actions of a round share, the features of the context and the constant, cannot change which action looks best.
But it takes a part of each step of the regression, and moves the predictions for actions that were not played: the more
a good action is played, the better all others look. So it is left out where the regression can do without: if each
namespace that is shared is crossed with one that identifies the actions, the crossed features can say all that it says.

A namespace identifies the actions if all of them have the same number of indicators there, features with the value 1:
the weights of these can then make up for a constant. With one tag here and three there they could not.

Interactions among shared namespaces (-q :: makes them) are left out too. So is the square of an id: it is the same
feature once more, and would double its part of each step.

There are two reductions. The one above cb_adf sees the actions of a round side by side. The one below
generate_interactions sees each example with its interactions, and hides from the regression what is left out. It is the
same as --ignore_linear (shared namespaces) --noconstant, and fewer interactions.
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

/// Whether all actions have some feature there, with the same value.
bool have_some_in_common(std::size_t ns, const VW::multi_ex& actions)
{
  const auto sorted = [ns](const VW::example* action)
  {
    const auto& features = action->feature_space[ns];
    std::vector<std::pair<VW::feature_index, float>> result;
    for (std::size_t i = 0; i < features.size(); ++i) { result.emplace_back(features.indices[i], features.values[i]); }
    std::sort(result.begin(), result.end());
    return result;
  };
  auto common = sorted(actions[0]);
  for (const auto* action : actions)
  {
    const auto own = sorted(action);
    const auto end = std::set_intersection(common.begin(), common.end(), own.begin(), own.end(), common.begin());
    common.erase(end, common.end());
  }
  return !common.empty();
}
}  // namespace

constexpr uint8_t shared_features::VARIES;
constexpr uint8_t shared_features::ONLY_AN_ID;
constexpr uint8_t shared_features::NOTHING;
constexpr uint8_t shared_features::ALL;
constexpr uint8_t shared_features::MOST_INTERACTIONS;

void shared_features::look_at(std::size_t ns, const VW::multi_ex& actions)
{
  const auto& first = actions[0]->feature_space[ns];
  const auto differs = [&](const VW::example* action) { return !same(first, action->feature_space[ns]); };
  if (_round.differing[ns] == 0)
  {
    if (std::none_of(actions.begin() + 1, actions.end(), differs)) { return; }
    _round.differing[ns] = 1;
  }
  auto& indicators = _round.indicators[ns];
  for (const auto* action : actions)
  {
    if (indicators == VARIES) { return; }
    const auto& values = action->feature_space[ns].values;
    const auto own = std::count(values.begin(), values.end(), 1.f);
    const auto before = indicators == ONLY_AN_ID ? 1 : indicators;
    if (own == 0 || own >= ONLY_AN_ID || (before != 0 && before != own)) { indicators = VARIES; }
    else if (values.size() != 1) { indicators = static_cast<uint8_t>(own); }
    else if (before == 0) { indicators = ONLY_AN_ID; }
  }
}

void shared_features::start_round(const VW::multi_ex& actions, bool learn)
{
  _round = remembered;
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
  _planned_terms = NOT_PLANNED;
  if (!learn) { return; }
  remembered = _round;
  if (_looked_for_crossed || _round.undecided()) { return; }
  const auto is_mixed = [&](VW::namespace_index ns)
  { return _round.differing[ns] != 0 && have_some_in_common(ns, actions); };
  _some_in_common = std::any_of(_seen.begin(), _seen.end(), is_mixed);
}

bool shared_features::is_as_planned(const interactions& terms) const
{
  const auto& last = _last_plan;
  return last.round.differing == _round.differing && last.round.indicators == _round.indicators &&
      last.round.learns == _round.learns && last.seen == _seen && last.terms == terms;
}

/// Whether some interaction crosses the term with a namespace that identifies the actions.
bool shared_features::is_crossed(const term& shared, const interactions& terms, const namespaces& ids)
{
  const auto crosses = [&](const term& longer)
  {
    for (std::size_t i = 0; longer.size() == shared.size() + 1 && i < longer.size(); ++i)
    {
      if (!ids[longer[i]]) { continue; }
      term rest = longer;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      if (std::is_permutation(rest.begin(), rest.end(), shared.begin())) { return true; }
    }
    return false;
  };
  return std::any_of(terms.begin(), terms.end(), crosses);
}

/// Whether the term has the id of the action twice, and the regression has the same with the id once.
bool shared_features::repeats_an_id(const term& t, const interactions& terms) const
{
  if (_round.learns == MOST_INTERACTIONS) { return false; }
  const auto is_repeated = [&](VW::namespace_index ns)
  { return _round.indicators[ns] == ONLY_AN_ID && std::count(t.begin(), t.end(), ns) > 1; };
  const auto found = std::find_if(t.begin(), t.end(), is_repeated);
  if (found == t.end()) { return false; }
  term once = t;
  once.erase(once.begin() + (found - t.begin()));
  if (once.size() == 1) { return !_all.feature_tweaks_config.ignore_linear[once[0]]; }
  return std::any_of(terms.begin(), terms.end(),
      [&](const term& other)
      { return other.size() == once.size() && std::is_permutation(once.begin(), once.end(), other.begin()); });
}

void shared_features::plan(const VW::example& action, bool learn)
{
  const auto& terms = *action.interactions;
  if (_planned_terms != terms.size())
  {
    _planned_terms = terms.size();
    if (!is_as_planned(terms))
    {
      _last_plan = {_round, _seen, terms, _round.learns};
      _leaves_out = false;
      if (_round.learns != ALL && !can_do_without(terms)) { _last_plan.learns = ALL; }
      else if (_round.learns == NOTHING && _round.undecided()) { _last_plan.learns = MOST_INTERACTIONS; }
    }
    _round.learns = _last_plan.learns;
  }
  if (!learn) { return; }
  remembered.learns = _round.learns;
  if (!_looked_for_crossed && !_round.undecided()) { warn_if_nothing_is_crossed(action); }
}

/// Users forget -q, and then wonder why every context gets the same action.
void shared_features::warn_if_nothing_is_crossed(const VW::example& action)
{
  _looked_for_crossed = true;
  const auto& terms = *action.interactions;
  const auto is_shared = [&](VW::namespace_index ns) { return _round.differing[ns] == 0; };
  const auto crosses_both = [&](const term& t)
  { return std::any_of(t.begin(), t.end(), is_shared) && !std::all_of(t.begin(), t.end(), is_shared); };
  const bool crossed_by_full_names = action.extent_interactions != nullptr && !action.extent_interactions->empty();
  if (crossed_by_full_names || std::any_of(terms.begin(), terms.end(), crosses_both)) { return; }
  std::string shared;
  std::string own;
  for (const auto ns : _seen)
  {
    if (ns != VW::details::CONSTANT_NAMESPACE) { (is_shared(ns) ? shared : own) += static_cast<char>(ns); }
  }
  const auto is_letter = [](char ns) { return std::isalnum(static_cast<unsigned char>(ns)) != 0; };
  if (!shared.empty())
  {
    _all.logger.err_warn(
        "No interaction (-q) crosses the features of the context with those of the actions, so the context cannot "
        "change which action looks best. Add {}-q ::.",
        is_letter(shared[0]) && is_letter(own[0]) ? std::string("-q ") + shared[0] + own[0] + " or " : "");
  }
  else if (terms.empty() && _some_in_common)
  {
    _all.logger.err_warn(
        "There are no interactions (-q), and features of the context are in a namespace of the actions: the context "
        "cannot change which action looks best. Use two namespaces, such as |U and |A, and add -q UA.");
  }
}

/// \return whether the regression can do without what the actions share. If there is something, it is left out.
bool shared_features::can_do_without(const interactions& terms)
{
  const auto& ignored = _all.feature_tweaks_config.ignore_linear;
  const auto& differing = _round.differing;
  const auto is_shared = [&](VW::namespace_index ns) { return differing[ns] == 0; };
  const bool undecided = _round.undecided();  // any namespace could be the one that identifies the actions
  namespaces ids;
  bool ids_are_learnt = false;  // by themselves
  for (const auto ns : _seen)
  {
    const bool may_identify = is_shared(ns) ? undecided : _round.indicators[ns] != VARIES;
    if (ns == VW::details::CONSTANT_NAMESPACE || !may_identify) { continue; }
    ids.set(ns);
    ids_are_learnt |= !ignored[ns];
  }
  namespaces crossed;  // with the ids
  for (const auto ns : _seen)
  {
    if (is_shared(ns) && is_crossed({ns}, terms, ids)) { crossed.set(ns); }
  }
  if (ids_are_learnt) { crossed.set(VW::details::CONSTANT_NAMESPACE); }
  _ignore_linear = ignored;
  bool some = false;
  for (const auto ns : _seen)
  {
    if (!is_shared(ns) || ignored[ns]) { continue; }
    if (!crossed[ns]) { return false; }
    _ignore_linear[ns] = true;
    some = true;
  }
  const auto is_left_out = [&](const term& t)
  {
    if (repeats_an_id(t, terms)) { return true; }
    if (!std::all_of(t.begin(), t.end(), is_shared)) { return false; }
    const bool all_crossed = std::all_of(t.begin(), t.end(), [&](VW::namespace_index ns) { return crossed[ns]; });
    return (all_crossed && !undecided && _round.learns != MOST_INTERACTIONS) || is_crossed(t, terms, ids);
  };
  _kept.clear();
  std::remove_copy_if(terms.begin(), terms.end(), std::back_inserter(_kept), is_left_out);
  _leaves_out = some || _kept.size() < terms.size();
  return true;
}

without_shared::without_shared(shared_features& shared, VW::example& action)
    : _shared(shared)
    , _action(action)
    , _ignored_some(shared._all.feature_tweaks_config.ignore_some_linear)
    , _all_terms(action.interactions)
{
  if (!shared._leaves_out) { return; }
  auto& tweaks = shared._all.feature_tweaks_config;
  std::swap(tweaks.ignore_linear, shared._ignore_linear);
  tweaks.ignore_some_linear = true;
  action.interactions = &shared._kept;
}

without_shared::~without_shared()
{
  if (!_shared._leaves_out) { return; }
  auto& tweaks = _shared._all.feature_tweaks_config;
  std::swap(tweaks.ignore_linear, _shared._ignore_linear);
  tweaks.ignore_some_linear = _ignored_some;
  _action.interactions = _all_terms;
}

namespace
{
void look_at_weight(bool& all_are_zero, float, float& weight) { all_are_zero = all_are_zero && weight == 0.f; }
}  // namespace

void shared_features::look_for_newcomer(VW::example& action)
{
  learnt_newcomer = true;
  VW::foreach_feature<bool, float&, look_at_weight>(_all, action, learnt_newcomer);
}
}  // namespace opo_cmab

namespace
{
using opo_cmab::shared_features;
using opo_cmab::without_shared;

class cb_shared_features
{
public:
  /// \param saved_version the format version of the state in the model being loaded; 0: none
  cb_shared_features(shared_features& shared, uint32_t saved_version) : _shared(shared), _saved_version(saved_version)
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

  /// The sections of the reductions above hold checksums of this one.
  void save_load(VW::io_buf& io, bool read, bool text)
  {
    if (io.num_files() == 0 || text || (read && _saved_version == 0)) { return; }
    auto* bytes = reinterpret_cast<char*>(&_shared.remembered);
    if (!read) { io.bin_write_fixed(bytes, sizeof(_shared.remembered)); }
    else if (io.bin_read_fixed(bytes, sizeof(_shared.remembered)) != sizeof(_shared.remembered))
    {
      THROW("the model file is cut short: use an intact copy, or train a new model");
    }
    else if (_saved_version == 6 && _shared.remembered.learns == shared_features::NOTHING)
    {
      _shared.remembered.learns = shared_features::MOST_INTERACTIONS;
    }
  }

  void persist_metrics(VW::metric_sink& metrics) const
  {
    metrics.set_bool("cb_leaves_out_shared_features", _shared.leaves_out());
  }

private:
  shared_features& _shared;
  const uint32_t _saved_version;
};

void predict(cb_shared_features& data, learner& base, VW::multi_ex& actions) { data.predict(base, actions); }
void learn(cb_shared_features& data, learner& base, VW::multi_ex& actions) { data.learn(base, actions); }
void save_load(cb_shared_features& data, VW::io_buf& io, bool read, bool text) { data.save_load(io, read, text); }
void persist_metrics(cb_shared_features& data, VW::metric_sink& metrics) { data.persist_metrics(metrics); }

void predict_below(shared_features& data, learner& base, VW::example& action)
{
  data.plan(action, false);
  const without_shared hidden(data, action);
  base.predict(action);
}
void learn_below(shared_features& data, learner& base, VW::example& action)
{
  data.plan(action, true);
  const without_shared hidden(data, action);
  if (data.is_linear) { data.look_for_newcomer(action); }
  base.learn(action);
}
void update_below(shared_features& data, learner& base, VW::example& action)
{
  data.plan(action, true);
  const without_shared hidden(data, action);
  if (data.is_linear) { data.look_for_newcomer(action); }
  base.update(action);
}
/// As planned for the prediction, and with its interactions: VW does not expand wildcards for sensitivities.
float sensitivity_below(shared_features& data, learner& base, VW::example& action)
{
  const without_shared hidden(data, action);
  return base.sensitivity(action);
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
  if (parts.loads_shared_weights() && mode != "learn")
  {
    THROW("the model has learnt what all actions share, and must continue to: leave out --cb_shared_features " << mode);
  }
  if (mode == "learn") { return nullptr; }

  parts.leaves_out_shared = true;  // for the reduction below, which is set up now
  auto base = require_multiline(stack_builder.setup_base_learner());
  if (!opo_cmab::first_nonlinear(*base).empty()) { return base; }  // crossed features do not say the same there
  parts.shared->is_linear = parts.least_squares == nullptr;
  // A saved state is of format 6 or later here: models of earlier formats learn all.
  return make_reduction_learner(VW::make_unique<cb_shared_features>(*parts.shared, parts.saved_state), base, learn,
      predict, stack_builder.get_setupfn_name(cb_shared_features_setup))
      .set_learn_returns_prediction(base->learn_returns_prediction)
      .set_save_load(save_load)
      .set_persist_metrics(persist_metrics)
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
