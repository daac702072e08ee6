#include "reductions/explorer_setup.h"

#include "reductions/least_squares.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/cb.h"
#include "vw/core/example.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/loss_functions.h"
#include "vw/core/model_utils.h"
#include "vw/core/scope_exit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

using namespace VW::config;

namespace
{
/// VW reports a value that is not a number, but not its option. Find it by parsing the options one by one.
void name_bad_value(const option_group_definition& group, options_i& options)
{
  for (const auto& option : group.m_options)
  {
    option_group_definition single(group.m_name);
    single.m_options.push_back(option);
    try
    {
      options.internal_add_and_parse(single);
    }
    catch (const VW::vw_argument_invalid_value_exception&)
    {
      const bool whole = option->m_type_hash == typed_option<int32_t>::type_hash();
      const auto* kind = whole ? "a whole number, at most 2147483647" : "a finite number";
      THROW_EX(VW::vw_argument_invalid_value_exception, "--" << option->m_name << " must be " << kind);
    }
  }
}
}  // namespace

namespace opo_cmab
{
bool explorer_options::add_and_parse(option_group_definition& group, options_i& options)
{
  group
      .add(make_option("cb_explore_adf", _cb_explore_adf)
               .keep()
               .necessary()
               .help("Online explore-exploit for a contextual bandit problem with multiline action dependent features"))
      .add(make_option("cb_type", _cb_type)
               .keep()
               .default_value("mtr")
               .one_of({"mtr"})
               .help("Contextual bandit method to use. Only supervised regression (mtr) is supported"))
      .add(make_option("epsilon", epsilon)
               .keep()
               .default_value(0.f)
               .allow_override()
               .help("The minimum probability of an action is this value divided by the number of actions"));
  try
  {
    if (options.add_parse_and_check_necessary(group)) { return true; }
    const auto& flag = group.m_options.front()->m_name;  // that of the explorer
    if (options.was_supplied(flag) && !_cb_explore_adf)
    {
      THROW("--" << flag << " needs --cb_explore_adf (or --ccb_explore_adf, --slates): add it");
    }
    for (const auto& option : group.m_options)
    {
      const auto& name = option->m_name;
      const bool its_own = name.compare(0, 4, "opo_") == 0 && name != flag;
      if (its_own && options.was_supplied(name)) { THROW("--" << name << " needs --" << flag << ": add it"); }
    }
    return false;
  }
  catch (const VW::vw_argument_invalid_value_exception&)
  {
    name_bad_value(group, options);
    throw;
  }
}

void explorer_options::prepare(const std::string& flag, VW::setup_base_i& stack_builder,
    std::initializer_list<std::pair<const char*, float>> settings, bool exact)
{
  options_i& options = *stack_builder.get_options();
  const VW::workspace& all = *stack_builder.get_all_pointer();
  auto& parts = parts_of(stack_builder);
  const auto loss = all.loss_config.loss->get_type();

  if (!(epsilon >= 0.f && epsilon <= 1.f)) { THROW("--epsilon must be in [0, 1]: " << epsilon); }
  if (loss != "squared" && loss != "classic" && loss != "logistic")
  {
    THROW("--" << flag << " needs a regression of costs: --loss_function squared (the default) or logistic, not "
               << loss);
  }
  for (const auto* other : {"large_action_space", "graph_feedback"})
  {
    if (options.was_supplied(other)) { THROW("--" << flag << " does not work with --" << other << ": leave it out"); }
  }

  parts.explorer_is_ours = true;
  take_saved_state(options, parts);
  // A stock model, or one of our format 3, has learnt raw costs, and must continue to.
  parts.model_loaded = all.runtime_state.model_file_ver != VW::version_struct{};
  const bool raw = options.was_supplied("opo_paper") || (parts.model_loaded && parts.saved_state < 4);
  // cb_adf can learn without a prediction, which nobody reads.
  if (!options.was_supplied("no_predict")) { options.insert("no_predict", ""); }
  if (exact && !options.was_supplied("least_squares")) { options.insert("least_squares", ""); }
  keep_option(options, "cb_cost_unit", raw ? "raw" : "range");
  keep_option(options, "cb_type", "mtr");
  keep_option(options, "loss_function", loss);
  for (const auto& setting : settings) { keep_option(options, setting.first, fmt::format("{}", setting.second)); }
  if (!options.was_supplied("cb_adf")) { options.insert("cb_adf", ""); }
}

void greediness::add_to(option_group_definition& group)
{
  group
      .add(make_option("gamma_scale", scale)
               .keep()
               .default_value(10.f)
               .help("Sets the greediness gamma = [gamma_scale]*[num examples]^[gamma_exponent]"))
      .add(make_option("gamma_exponent", exponent)
               .keep()
               .default_value(.5f)
               .help("Exponent on [num examples] in the greediness gamma"));
}

void greediness::check() const
{
  require_nonnegative("--gamma_scale", scale);
  require_nonnegative("--gamma_exponent", exponent);
}

double greediness::gamma(uint64_t rounds) const { return scale * std::pow(static_cast<double>(rounds), exponent); }

bool takes_least_squares(options_i& options, const VW::workspace& all)
{
  if (all.runtime_state.model_file_ver != VW::version_struct{}) { return options.was_supplied("least_squares"); }
  std::string cost_unit;  // of a reduction further down, which is not set up yet
  option_group_definition group("[Reduction] Contextual Bandit Cost Unit");
  group.add(make_option("cb_cost_unit", cost_unit).default_value("").hidden());
  options.add_and_parse(group);
  return all.loss_config.loss->get_type() != "logistic" && cost_unit != "raw" &&
      refused_by_least_squares(options).empty();
}

void require_nonnegative(const std::string& flag, float value)
{
  if (!(value >= 0.f) || !std::isfinite(value)) { THROW(flag << " must be at least 0 and finite: " << value); }
}

void keep_option(options_i& options, const std::string& name, const std::string& value)
{
  if (!options.was_supplied(name)) { options.replace(name, value); }
  // Our own options are defined with keep(). VW's (--loss_function) are not, and those of reductions further down are
  // not defined yet.
  for (const auto& option : options.get_all_options())
  {
    if (option->m_name == name) { option->m_keep = true; }
  }
}

void keep_learner_options(options_i& options)
{
  for (const auto* name : {"ftrl_alpha", "ftrl_beta"})
  {
    if (options.was_supplied(name)) { keep_option(options, name, ""); }
  }
}

void check_daemon(options_i& options, const VW::workspace& all, const std::string& flag)
{
  const bool daemon =
      options.was_supplied("daemon") || options.was_supplied("port") || options.was_supplied("pid_file");
  if (!daemon || options.was_supplied("no_daemon") || !all.runtime_config.training) { return; }

  uint64_t children = 0;
  option_group_definition group("Daemon");
  group.add(make_option("num_children", children).default_value(10));
  options.add_and_parse(group);
  if (children != 1)
  {
    THROW("--" << flag << " learns in one process: a daemon needs --num_children 1 (any number with -t), not "
               << children);
  }
  if (options.was_supplied("final_regressor") || options.was_supplied("f"))
  {
    THROW(
        "--final_regressor (-f) does not work with a daemon that learns: the process that saves at the end is not "
        "the one that learns. Send the daemon a line save_<file> instead");
  }
}

void take_saved_state(options_i& options, parts& ours)
{
  uint32_t version = 0;
  option_group_definition group("[Reduction] Contextual Bandit Exploration State");
  group.add(make_option("explorer_state", version)
                .keep()
                .default_value(STATE_VERSION)
                .hidden()
                .help("Set by VW in models that hold an explorer's state. Do not set it by hand"));
  options.add_and_parse(group);
  if (options.was_supplied("explorer_state"))
  {
    if (version < 3 || version > STATE_VERSION)
    {
      THROW("the model's state has format version " << version << ", and this program reads versions 3 to "
                                                    << STATE_VERSION << ": load it with the version that saved it");
    }
    ours.saved_state = version;
  }
  options.replace("explorer_state", std::to_string(STATE_VERSION));
  options.get_typed_option<uint32_t>("explorer_state").value(STATE_VERSION);
}

std::string first_nonlinear(const VW::LEARNER::learner& base)
{
  const std::vector<std::string> linear = {"gd", "ftrl-Proximal-FTRL", "ftrl-PiSTOL", "ftrl-Coin Betting",
      "least_squares", "generate_interactions", "opo_tap", "scorer-identity", "csoaa_ldf-rank", "cb_adf",
      "cb_cost_unit", "cb_shared_features", "cb_shared_features_below"};
  std::vector<std::string> enabled;
  base.get_enabled_learners(enabled);
  const auto found = std::find_if(enabled.begin(), enabled.end(),
      [&](const std::string& name) { return std::find(linear.begin(), linear.end(), name) == linear.end(); });
  return found == enabled.end() ? "" : *found;
}

VW::cb_class* find_observed(VW::multi_ex& examples)
{
  for (auto* example : examples)
  {
    auto& costs = example->l.cb.costs;
    if (costs.size() == 1 && costs[0].cost != FLT_MAX) { return &costs[0]; }
  }
  return nullptr;
}

void make_uniform(VW::action_scores& predictions)
{
  for (auto& prediction : predictions) { prediction.score = 1.f / static_cast<float>(predictions.size()); }
}

void learn_round(VW::LEARNER::learner& base, VW::multi_ex& examples, bool importance_weighted)
{
  auto* observed = find_observed(examples);  // never nullptr: cb_explore_adf_base learns from labelled rounds only
  const float probability = observed->probability;
  auto predictions = std::move(examples[0]->pred.a_s);
  auto restore = VW::scope_exit(
      [&]
      {
        observed->probability = probability;
        examples[0]->pred.a_s = std::move(predictions);
      });
  if (!importance_weighted) { observed->probability = 1.f; }
  VW::LEARNER::multiline_learn_or_predict<true>(base, examples, examples[0]->ft_offset);
}

void round_counter::save_load(VW::io_buf& io, bool read, bool text)
{
  if (io.num_files() == 0) { return; }
  if (text) { VW::model_utils::write_model_field(io, value, _name, true); }
  else if (!read) { _state.save(io, {reinterpret_cast<const char*>(&value), sizeof(value)}); }
  else
  {
    std::string state;
    if (!_state.load(io, state)) { return; }
    if (state.size() != sizeof(value)) { _state.throw_damaged("it has the wrong size"); }
    std::memcpy(&value, state.data(), sizeof(value));
  }
}
}  // namespace opo_cmab
