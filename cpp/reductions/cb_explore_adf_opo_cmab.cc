#include "reductions/cb_explore_adf_opo_cmab.h"

#include "kernel/policy.h"
#include "reductions/explorer_setup.h"
#include "reductions/opo_tap.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/action_score.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/setup_base.h"
#include "vw/explore/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

/*
This file implements OPO-CMAB (Levy and Mansour (2026), "Optimal Regret for Policy Optimization in Contextual Bandits"),
with the VW learner as the regression oracle. For the context at hand it replays the policies that all past predictors
would have led to (kernel/policy.h). Their predictions come from the history of the weights, which opo_tap.h keeps at
the bottom of the stack (kernel/weight_history.h). By default it forgets, which the paper's Algorithm 1 does not:
--opo_decay 1 is the algorithm to the letter.
*/

using namespace VW::cb_explore_adf;
using namespace VW::config;
using namespace VW::LEARNER;

namespace
{
class cb_explore_adf_opo_cmab
{
public:
  cb_explore_adf_opo_cmab(const opo_cmab::policy_settings& settings, const opo_cmab::loss_map& map,
      const opo_cmab::explorer_options& options, bool importance_weighted, opo_cmab::tap& tap, learner& base,
      VW::io::logger logger)
      : _settings(settings)
      , _map(map)
      , _costs(options.costs)
      , _epsilon(options.epsilon)
      , _importance_weighted(importance_weighted)
      , _tap(tap)
      , _state("opo_cmab", base, options.state_saved)
      , _logger(std::move(logger))
  {
  }

  // Should be called through cb_explore_adf_base for pre/post-processing
  void predict(learner& base, VW::multi_ex& examples);
  void learn(learner& base, VW::multi_ex& examples);
  void save_load(VW::io_buf& io, bool read, bool text);
  void persist_metrics(VW::metric_sink& metrics) const;

  opo_cmab::explanation* explaining = nullptr;  ///< where predictions write down their steps, if anywhere

private:
  opo_cmab::policy_settings _settings;
  opo_cmab::loss_map _map;
  opo_cmab::cost_range _costs;
  float _epsilon;
  bool _importance_weighted;
  opo_cmab::tap& _tap;
  opo_cmab::explorer_state _state;
  VW::io::logger _logger;
  bool _warned_of_cost = false;
  opo_cmab::policy _policy;

  opo_cmab::step_observer start_explaining(std::size_t actions) const;
  void warn_of_cost(const VW::multi_ex& examples);
  void load(VW::io_buf& io);
};

void append(std::vector<double>& values, const double* more, std::size_t count)
{
  values.insert(values.end(), more, more + count);
}

void cb_explore_adf_opo_cmab::predict(learner& base, VW::multi_ex& examples)
{
  _tap.start_noting(examples.size());
  multiline_learn_or_predict<false>(base, examples, examples[0]->ft_offset);
  double* changes = _tap.stop_noting();

  _policy.start(_settings, examples.size());
  const auto& past = _tap.history.past();
  const auto observer = start_explaining(examples.size());
  if (past.budget() == 0) { _policy.replay(changes, past.rounds(), _map, observer); }
  else { _policy.replay(changes, past, _map, observer); }
  if (explaining != nullptr) { append(explaining->policies, _policy.probabilities(), examples.size()); }

  auto& preds = examples[0]->pred.a_s;
  for (auto& pred : preds) { pred.score = static_cast<float>(_policy.probabilities()[pred.action]); }
  VW::explore::enforce_minimum_probability(_epsilon, true, VW::begin_scores(preds), VW::end_scores(preds));
}

/// An observer that writes down the steps, or none.
opo_cmab::step_observer cb_explore_adf_opo_cmab::start_explaining(std::size_t actions) const
{
  if (explaining == nullptr) { return nullptr; }
  auto& target = *explaining;
  target = {};
  target.min_cost = _costs.min;
  target.max_cost = _costs.max;
  return [&target, actions](
             std::size_t first, std::size_t rounds, const double* losses, const double* bonuses, const double* pi)
  {
    target.first_rounds.push_back(first);
    target.rounds.push_back(rounds);
    append(target.losses, losses, actions);
    append(target.bonuses, bonuses, actions);
    append(target.policies, pi, actions);
  };
}

void cb_explore_adf_opo_cmab::learn(learner& base, VW::multi_ex& examples)
{
  if (_tap.history.past().rounds() >= UINT32_MAX - 1) { THROW("--opo_cmab can learn from 2^32 - 2 rounds at most"); }
  warn_of_cost(examples);
  opo_cmab::learn_round(base, examples, _importance_weighted);
  _tap.history.end_round();
}

void cb_explore_adf_opo_cmab::warn_of_cost(const VW::multi_ex& examples)
{
  const float cost = VW::get_observed_cost_or_default_cb_adf(examples).cost;
  if (_warned_of_cost || (cost >= _costs.min && cost <= _costs.max)) { return; }
  _warned_of_cost = true;
  _logger.err_warn(
      "The cost {} is outside of --cb_min_cost {} and --cb_max_cost {}. It is learnt from as it is; what is predicted "
      "beyond the range counts as its end. Further such costs are not reported.",
      cost, _costs.min, _costs.max);
}

void cb_explore_adf_opo_cmab::persist_metrics(VW::metric_sink& metrics) const
{
  metrics.set_uint("opo_rounds", _tap.history.past().rounds());
  metrics.set_uint("opo_segments", _tap.history.past().size());
  metrics.set_uint("opo_history_entries", _tap.history.entries());
  metrics.set_uint("opo_history_bytes", _tap.history.bytes());
}

void cb_explore_adf_opo_cmab::save_load(VW::io_buf& io, bool read, bool text)
{
  if (io.num_files() == 0) { return; }
  if (read) { load(io); }
  else if (text)
  {
    const auto& history = _tap.history;
    const auto summary =
        fmt::format("opo_rounds = {}\nopo_segments = {}\nopo_history_weights = {}\nopo_history_entries = {}\n",
            history.past().rounds(), history.past().size(), history.weights(), history.entries());
    io.bin_write_fixed(summary.data(), summary.size());
  }
  else { _state.save(io, _tap.history.serialize()); }
}

void cb_explore_adf_opo_cmab::load(VW::io_buf& io)
{
  std::string state;
  if (!_state.load(io, state)) { return; }  // a model without a history: its weights are the first predictor
  if (!_tap.history.deserialize(state.data(), state.size())) { _state.throw_damaged("it is no history"); }
}

/// Predictors that the history of the weights reproduces: linear in weights that only learning changes.
void require_linear(const learner& base, const VW::workspace& all)
{
  const std::vector<std::string> linear = {"gd", "ftrl-Proximal-FTRL", "ftrl-PiSTOL", "ftrl-Coin Betting",
      "generate_interactions", "opo_tap", "scorer-identity", "csoaa_ldf-rank", "cb_adf", "cb_score_link"};
  std::vector<std::string> enabled;
  base.get_enabled_learners(enabled);
  for (const auto& name : enabled)
  {
    if (std::find(linear.begin(), linear.end(), name) == linear.end())
    {
      THROW("--opo_cmab does not work with " << name
                                             << ": it needs a linear learner, gd (the default), --ftrl, --coin "
                                                "or --pistol, and nothing between it and the bandit");
    }
  }
  if (all.loss_config.l1_lambda > 0.f) { THROW("--opo_cmab does not work with --l1: it acts outside of the weights"); }
  if (all.loss_config.l2_lambda > 0.f) { THROW("--opo_cmab does not work with --l2: it acts outside of the weights"); }
}

/// VW's daemon forks children over one weight vector: each would keep a history of weights that the others change.
void check_daemon(options_i& options, const VW::workspace& all)
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
    THROW("--opo_cmab learns in one process: a daemon needs --num_children 1 (any number with -t), not " << children);
  }
  if (options.was_supplied("final_regressor") || options.was_supplied("f"))
  {
    THROW(
        "--final_regressor (-f) does not work with a daemon that learns: the process that would save at the end is "
        "not the one that learnt. Send the daemon a line save_<file> instead");
  }
}

void persist_metrics(cb_explore_adf_base<cb_explore_adf_opo_cmab>& data, VW::metric_sink& metrics)
{
  cb_explore_adf_base<cb_explore_adf_opo_cmab>::persist_metrics(data, metrics);
  data.explore.persist_metrics(metrics);
}
}  // namespace

void opo_cmab::explain_into(VW::workspace& all, explanation* target)
{
  if (!all.options->was_supplied("opo_cmab")) { THROW("only decisions of --opo_cmab can be explained"); }
  auto* explorer = all.l->get_learner_by_name_prefix("cb_explore_adf_opo_cmab");
  static_cast<cb_explore_adf_base<cb_explore_adf_opo_cmab>*>(
      explorer->get_internal_type_erased_data_pointer_test_use_only())
      ->explore.explaining = target;
}

std::shared_ptr<learner> VW::reductions::cb_explore_adf_opo_cmab_setup(VW::setup_base_i& stack_builder)
{
  options_i& options = *stack_builder.get_options();
  VW::workspace& all = *stack_builder.get_all_pointer();
  bool opo_cmab_option = false;
  float eta = 0.f;
  float gamma = 0.f;
  float beta = 0.f;
  float decay = 0.f;
  int32_t budget = 0;
  bool importance_weighted = false;
  opo_cmab::explorer_options explorer;

  option_group_definition new_options("[Reduction] Contextual Bandit Exploration with ADF (OPO-CMAB)");
  new_options
      .add(make_option("opo_cmab", opo_cmab_option)
               .keep()
               .necessary()
               .help("Optimistic policy optimization (OPO-CMAB) exploration"))
      .add(make_option("opo_eta", eta)
               .keep()
               .default_value(100.f)
               .help(
                   "Learning rate of the policy: the larger, the sooner it concentrates on the action that looks best"))
      .add(
          make_option("opo_gamma", gamma)
              .keep()
              .default_value(0.1f)
              .help("Size of the exploration bonus, beta_k = [opo_gamma]*sqrt(k/[num actions]) in round k: the larger, "
                    "the more is explored"))
      .add(make_option("opo_beta", beta)
               .keep()
               .help("Constant size of the exploration bonus, the beta of Algorithm 1, instead of --opo_gamma"))
      .add(make_option("opo_decay", decay)
               .keep()
               .default_value(.9f)
               .help("What is left of the past after a round: pi_{k+1} is proportional to "
                     "pi_k^[opo_decay]*exp(-[opo_eta]*loss). 1 is Algorithm 1; less forgets models that were wrong"))
      .add(make_option("opo_budget", budget)
               .keep()
               .default_value(0)
               .help("At most so many steps a decision, and a history of at most so many segments, however long the "
                     "stream: the longer ago, the coarser. 0 is exact: a step for each past round"))
      .add(make_option("opo_importance_weighted", importance_weighted)
               .keep()
               .help("Weight examples by the inverse of their logged probability when learning, as the paper's "
                     "experiments do. Algorithm 1 does not"));
  if (!explorer.add_and_parse(new_options, options)) { return nullptr; }

  const bool constant_beta = options.was_supplied("opo_beta");
  if (constant_beta && options.was_supplied("opo_gamma"))
  {
    THROW("--opo_beta and --opo_gamma: give only one of them");
  }
  opo_cmab::require_nonnegative("--opo_eta", eta);
  opo_cmab::require_nonnegative("--opo_gamma", gamma);
  opo_cmab::require_nonnegative("--opo_beta", beta);
  if (!(decay >= 0.f && decay <= 1.f)) { THROW("--opo_decay must be in [0, 1]: " << decay); }
  if (budget < 0 || budget == 1) { THROW("--opo_budget must be 0 (exact) or at least 2: " << budget); }
  if (options.was_supplied("feature_mask")) { THROW("--opo_cmab does not work with --feature_mask"); }
  if (stack_builder.get_feature_width_above() != 1)
  {
    THROW("--opo_cmab does not work with a reduction above it that keeps several models");
  }
  check_daemon(options, all);

  if (!options.was_supplied("no_predict")) { options.insert("no_predict", ""); }  // cb_adf need not predict to learn
  explorer.prepare("opo_cmab", stack_builder,
      {{"opo_eta", eta}, {"opo_decay", decay},
          {constant_beta ? "opo_beta" : "opo_gamma", constant_beta ? beta : gamma}});
  opo_cmab::keep_option(options, "opo_budget", std::to_string(budget));

  auto base = require_multiline(stack_builder.setup_base_learner());
  require_linear(*base, all);

  opo_cmab::policy_settings settings;
  settings.eta = eta;
  settings.decay = decay;
  settings.gamma = gamma;
  if (constant_beta) { settings.beta = beta; }

  opo_cmab::loss_map map;
  map.logistic = base->get_name() == "cb_score_link";
  const double min = map.logistic ? options.get_typed_option<float>("logistic_min").value() : 0.;
  const double max = map.logistic ? options.get_typed_option<float>("logistic_max").value() : 1.;
  map.pieces = {{SIZE_MAX, (min - explorer.costs.min) / explorer.costs.width(), (max - min) / explorer.costs.width()}};

  auto& tap = *static_cast<opo_cmab::tap*>(
      base->get_learner_by_name_prefix("opo_tap")->get_internal_type_erased_data_pointer_test_use_only());
  return opo_cmab::make_explorer<cb_explore_adf_opo_cmab>(stack_builder, cb_explore_adf_opo_cmab_setup, base, settings,
      map, explorer, importance_weighted, tap, *base, all.logger)
      .set_persist_metrics(persist_metrics)
      .build();
}
