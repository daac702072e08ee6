#include "reductions/explorer_setup.h"

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

using namespace VW::config;

namespace
{
/// VW says of a value that it is no number, but not of which option: find it by parsing them one by one.
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
      THROW_EX(VW::vw_argument_invalid_value_exception, "--" << option->m_name << " must be a finite number");
    }
  }
}
}  // namespace

namespace opo_cmab
{
cost_range find_cost_range(const options_i& options)
{
  // cbify hands its costs down only to the explorers that it knows by name.
  const float sign = options.was_supplied("flip_loss_sign") ? -1.f : 1.f;
  const auto cbify_costs = std::minmax({sign * options.get_typed_option<float>("loss0").value(),
      sign * options.get_typed_option<float>("loss1").value()});
  cost_range costs;
  costs.min = cbify_costs.first;
  costs.max = cbify_costs.second;
  if (options.was_supplied("cb_min_cost")) { costs.min = options.get_typed_option<float>("cb_min_cost").value(); }
  if (options.was_supplied("cb_max_cost")) { costs.max = options.get_typed_option<float>("cb_max_cost").value(); }
  if (!(costs.min < costs.max) || !std::isfinite(costs.width()))
  {
    THROW("--cb_min_cost must be below --cb_max_cost, both finite: " << costs.min << " and " << costs.max);
  }
  return costs;
}

bool explorer_options::add_and_parse(option_group_definition& group, options_i& options)
{
  group
      .add(make_option("cb_explore_adf", _cb_explore_adf)
               .keep()
               .necessary()
               .help("Online explore-exploit for a contextual bandit problem with multiline action dependent features"))
      .add(make_option("cb_min_cost", costs.min)
               .keep()
               .default_value(0.f)
               .help("Lower bound on cost; with --cbify, --loss0 unless given"))
      .add(make_option("cb_max_cost", costs.max)
               .keep()
               .default_value(1.f)
               .help("Upper bound on cost; with --cbify, --loss1 unless given"))
      .add(make_option("cb_type", _cb_type)
               .keep()
               .default_value("mtr")
               .one_of({"mtr"})
               .help("Contextual bandit method to use. Only supervised regression (mtr) is supported"))
      .add(make_option("epsilon", epsilon)
               .keep()
               .default_value(0.f)
               .allow_override()
               .help("The minimum probability of an action is this value divided by the number of actions"))
      .add(make_option("explorer_state", _state_version)
               .keep()
               .default_value(STATE_VERSION)
               .hidden()
               .help("Set in models that hold an explorer's state, not by hand"));
  try
  {
    return options.add_parse_and_check_necessary(group);
  }
  catch (const VW::vw_argument_invalid_value_exception&)
  {
    name_bad_value(group, options);
    throw;
  }
}

void explorer_options::prepare(const std::string& flag, VW::setup_base_i& stack_builder,
    std::initializer_list<std::pair<const char*, float>> settings)
{
  options_i& options = *stack_builder.get_options();
  const auto loss = stack_builder.get_all_pointer()->loss_config.loss->get_type();

  if (!(epsilon >= 0.f && epsilon <= 1.f)) { THROW("--epsilon must be in [0, 1]: " << epsilon); }
  costs = find_cost_range(options);
  if (loss != "squared" && loss != "classic" && loss != "logistic")
  {
    THROW("--" << flag << " needs a regression of costs: --loss_function squared (the default) or logistic, not "
               << loss);
  }
  for (const auto* other : {"large_action_space", "graph_feedback"})
  {
    if (options.was_supplied(other)) { THROW("--" << flag << " does not work with --" << other); }
  }

  state_saved = options.was_supplied("explorer_state");
  keep_option(options, "explorer_state", std::to_string(STATE_VERSION));
  keep_option(options, "cb_min_cost", fmt::format("{}", costs.min));
  keep_option(options, "cb_max_cost", fmt::format("{}", costs.max));
  keep_option(options, "cb_type", "mtr");
  keep_option(options, "loss_function", loss);
  for (const auto& setting : settings) { keep_option(options, setting.first, fmt::format("{}", setting.second)); }
  if (loss == "logistic") { keep_option(options, "cb_score_link", "logistic"); }
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

void require_nonnegative(const std::string& flag, float value)
{
  if (!(value >= 0.f) || !std::isfinite(value)) { THROW(flag << " must be at least 0 and finite: " << value); }
}

void keep_option(options_i& options, const std::string& name, const std::string& value)
{
  if (!options.was_supplied(name)) { options.replace(name, value); }
  // Those of ours are kept by their definition. VW's own (--loss_function) are not, and an option that a reduction
  // further down defines is not known yet.
  for (const auto& option : options.get_all_options())
  {
    if (option->m_name == name) { option->m_keep = true; }
  }
}

void learn_round(VW::LEARNER::learner& base, VW::multi_ex& examples, bool importance_weighted)
{
  VW::cb_class* observed = nullptr;  // there is one: cb_explore_adf_base learns from labelled rounds only
  for (auto* example : examples)
  {
    auto& costs = example->l.cb.costs;
    if (costs.size() == 1 && costs[0].cost != FLT_MAX) { observed = &costs[0]; }
  }

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
    if (state.size() != sizeof(value)) { _state.throw_damaged("it is of another size"); }
    std::memcpy(&value, state.data(), sizeof(value));
  }
}
}  // namespace opo_cmab
