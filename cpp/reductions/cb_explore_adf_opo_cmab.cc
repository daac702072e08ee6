#include "reductions/cb_explore_adf_opo_cmab.h"

#include "kernel/cost_range.h"
#include "kernel/optimistic_policy.h"
#include "kernel/policy.h"
#include "reductions/cb_cost_unit.h"
#include "reductions/explorer_setup.h"
#include "reductions/least_squares.h"
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
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

/*
This file implements OPO-CMAB (Levy and Mansour (2026), "Optimal Regret for Policy Optimization in Contextual Bandits").

By default the oracle is least squares (reductions/least_squares.h), and a decision is a softmax of optimistic losses
(kernel/optimistic_policy.h). With another learner, or any setting of Algorithm 1, it replays the policies that all past
predictors lead to (kernel/policy.h) for the current context. Their predictions come from the history of the weights,
which opo_tap.h keeps at the bottom of the stack (kernel/weight_history.h). --opo_paper is the paper's Algorithm 1;
without it the replay also forgets, scales the bonus, keeps the past within a budget and maps costs to their range
(docs/theory.md).
*/

using namespace VW::cb_explore_adf;
using namespace VW::config;
using namespace VW::LEARNER;

namespace
{
thread_local opo_cmab::explanations* explained = nullptr;  ///< where decisions write their steps; nullptr: nowhere

class cb_explore_adf_opo_cmab
{
public:
  /// \param scale gamma as a multiple of the lowest predicted loss; below 0: gamma is as in the settings
  cb_explore_adf_opo_cmab(const opo_cmab::policy_settings& settings, double scale, float epsilon,
      bool importance_weighted, const opo_cmab::parts& parts, learner& base, VW::workspace& all)
      : _settings(settings)
      , _scale(scale)
      , _epsilon(epsilon)
      , _importance_weighted(importance_weighted)
      , _costs(*parts.costs)
      , _tap(*parts.tap)
      , _state("opo_cmab", &base, parts.saved_state)
      , _all(all)
  {
  }

  // Should be called through cb_explore_adf_base for pre/post-processing
  void predict(learner& base, VW::multi_ex& examples);
  void learn(learner& base, VW::multi_ex& examples);
  void save_load(VW::io_buf& io, bool read, bool text);
  void persist_metrics(VW::metric_sink& metrics) const;

private:
  opo_cmab::policy_settings _settings;
  double _scale;
  float _epsilon;
  bool _importance_weighted;
  const opo_cmab::cost_unit& _costs;
  opo_cmab::tap& _tap;
  opo_cmab::explorer_state _state;
  VW::workspace& _all;
  bool _warned_of_no_history = false;

  opo_cmab::range_history _ranges;
  opo_cmab::policy _policy;
  uint64_t _decisions = 0;
  std::chrono::steady_clock::duration _deciding{};  ///< the time spent on them

  opo_cmab::step_observer start_explaining(std::size_t actions, double shift) const;
  void replay(learner& base, VW::multi_ex& examples);
  void warn_of_no_history();
  std::string serialize() const;
  bool deserialize(const std::string& state);
};

/// The default: on least squares, which knows the variances of its predictions.
class cb_explore_adf_optimistic
{
public:
  cb_explore_adf_optimistic(float epsilon, const opo_cmab::parts& parts, learner& base)
      : _epsilon(epsilon)
      , _costs(*parts.costs)
      , _regression(*parts.least_squares)
      , _rounds({"opo_cmab", &base, parts.saved_state}, "opo_rounds")
  {
  }

  // Should be called through cb_explore_adf_base for pre/post-processing
  void predict(learner& base, VW::multi_ex& examples);
  void learn(learner& base, VW::multi_ex& examples);
  void save_load(VW::io_buf& io, bool read, bool text) { _rounds.save_load(io, read, text); }
  void persist_metrics(VW::metric_sink& metrics) const { metrics.set_uint("opo_rounds", _rounds.value); }

private:
  float _epsilon;
  const opo_cmab::cost_unit& _costs;
  opo_cmab::least_squares_learner& _regression;
  opo_cmab::round_counter _rounds;
  opo_cmab::optimistic_policy _policy;

  void explain(std::size_t actions, double shift) const;
};

void cb_explore_adf_optimistic::predict(learner& base, VW::multi_ex& examples)
{
  if (_costs.known()) { _regression.start_noting(); }
  multiline_learn_or_predict<false>(base, examples, examples[0]->ft_offset);
  auto& preds = examples[0]->pred.a_s;
  const auto& variances = _regression.stop_noting();
  if (!_costs.known())
  {
    opo_cmab::make_uniform(preds);
    if (explained != nullptr)
    {
      explained->decisions.emplace_back();
      explained->decisions.back().policies.assign(preds.size(), 1. / static_cast<double>(preds.size()));
    }
    return;
  }
  if (variances.size() != preds.size())
  {
    THROW("--opo_cmab: " << variances.size() << " examples were predicted for " << preds.size()
                         << " actions. A reduction below it adds or drops examples: leave it out");
  }
  _policy.losses.resize(preds.size());
  for (const auto& pred : preds) { _policy.losses[pred.action] = pred.score; }
  const double shift = _costs.shift(*std::min_element(_policy.losses.begin(), _policy.losses.end()));
  _policy.decide(variances, shift);
  if (explained != nullptr) { explain(preds.size(), shift); }
  for (auto& pred : preds) { pred.score = static_cast<float>(_policy.probabilities[pred.action]); }
  VW::explore::enforce_minimum_probability(_epsilon, true, VW::begin_scores(preds), VW::end_scores(preds));
}

void cb_explore_adf_optimistic::explain(std::size_t actions, double shift) const
{
  explained->decisions.emplace_back();
  auto& target = explained->decisions.back();
  const double moved = shift * (_costs.high() - _costs.low());
  target.min_cost = _costs.low() + moved;
  target.max_cost = _costs.high() + moved;
  target.first_rounds = {0};
  target.rounds = {_rounds.value};
  target.losses = _policy.losses;
  target.bonuses = _policy.bonuses;
  target.policies.assign(actions, 1. / static_cast<double>(actions));
  target.policies.insert(target.policies.end(), _policy.probabilities.begin(), _policy.probabilities.end());
}

void cb_explore_adf_optimistic::learn(learner& base, VW::multi_ex& examples)
{
  opo_cmab::learn_round(base, examples);
  ++_rounds.value;
}

void append(std::vector<double>& values, const double* more, std::size_t count)
{
  values.insert(values.end(), more, more + count);
}

void cb_explore_adf_opo_cmab::predict(learner& base, VW::multi_ex& examples)
{
  if (_tap.history.past().rounds() == 0) { warn_of_no_history(); }
  const auto start = std::chrono::steady_clock::now();
  if (_costs.known()) { replay(base, examples); }
  else
  {
    multiline_learn_or_predict<false>(base, examples, examples[0]->ft_offset);
    opo_cmab::make_uniform(examples[0]->pred.a_s);
    if (explained != nullptr)
    {
      explained->decisions.emplace_back();
      explained->decisions.back().policies.assign(examples.size(), 1. / static_cast<double>(examples.size()));
    }
  }
  auto& preds = examples[0]->pred.a_s;
  VW::explore::enforce_minimum_probability(_epsilon, true, VW::begin_scores(preds), VW::end_scores(preds));
  ++_decisions;
  _deciding += std::chrono::steady_clock::now() - start;
}

/// The lowest loss that the model predicts.
double lowest_loss(const VW::action_scores& predictions)
{
  float lowest = HUGE_VALF;
  for (const auto& prediction : predictions) { lowest = std::min(lowest, prediction.score); }
  return lowest;
}

void cb_explore_adf_opo_cmab::replay(learner& base, VW::multi_ex& examples)
{
  _tap.start_noting(examples.size());
  multiline_learn_or_predict<false>(base, examples, examples[0]->ft_offset);
  auto& predictions = _tap.stop_noting();

  auto settings = _settings;
  const double lowest = lowest_loss(examples[0]->pred.a_s);
  const double shift = _costs.shift(lowest);
  if (_scale >= 0.) { settings.gamma = _scale * std::max(0., std::min(1., lowest)); }
  _policy.start(settings, examples.size());
  const auto map = _costs.loss_map(_ranges, predictions.past(), shift);
  _policy.replay(predictions, map, start_explaining(examples.size(), shift));
  if (explained != nullptr) { append(explained->decisions.back().policies, _policy.probabilities(), examples.size()); }
  for (auto& pred : examples[0]->pred.a_s) { pred.score = static_cast<float>(_policy.probabilities()[pred.action]); }
}

void cb_explore_adf_opo_cmab::warn_of_no_history()
{
  if (_warned_of_no_history || _all.runtime_config.training) { return; }
  _warned_of_no_history = true;
  _all.logger.err_warn(
      "--opo_cmab has not learnt from any round yet, and -t turns learning off: all actions are equally likely. "
      "Train without -t first.");
}

/// An observer that writes the steps to `explained`, or none.
opo_cmab::step_observer cb_explore_adf_opo_cmab::start_explaining(std::size_t actions, double shift) const
{
  if (explained == nullptr) { return nullptr; }
  explained->decisions.emplace_back();
  auto& target = explained->decisions.back();
  const std::size_t most_steps = explained->most_steps;
  const double moved = shift * (_costs.high() - _costs.low());
  target.min_cost = _costs.low() + moved;
  target.max_cost = _costs.high() + moved;
  return [&target, actions, most_steps](
             std::size_t first, std::size_t rounds, const double* losses, const double* bonuses, const double* pi)
  {
    if (target.rounds.size() == most_steps) { THROW("the decision takes more than " << most_steps << " steps"); }
    target.first_rounds.push_back(first);
    target.rounds.push_back(rounds);
    append(target.losses, losses, actions);
    append(target.bonuses, bonuses, actions);
    append(target.policies, pi, actions);
  };
}

void cb_explore_adf_opo_cmab::learn(learner& base, VW::multi_ex& examples)
{
  if (_tap.history.past().rounds() >= UINT32_MAX - 1)
  {
    THROW("--opo_cmab can learn from at most 2^32 - 2 rounds: start a new model");
  }
  opo_cmab::learn_round(base, examples, _importance_weighted);
  _ranges.append(_tap.history.past().rounds() + 1, _costs.range);
  _tap.history.end_round();
}

void cb_explore_adf_opo_cmab::persist_metrics(VW::metric_sink& metrics) const
{
  metrics.set_uint("opo_rounds", _tap.history.past().rounds());
  metrics.set_uint("opo_segments", _tap.history.past().size());
  metrics.set_uint("opo_history_entries", _tap.history.entries());
  metrics.set_uint("opo_history_bytes", _tap.history.bytes());
  metrics.set_uint("opo_cost_ranges", _ranges.entries().size());
  metrics.set_uint("opo_decisions", _decisions);
  metrics.set_uint("opo_decide_microseconds",
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(_deciding).count()));
}

void cb_explore_adf_opo_cmab::save_load(VW::io_buf& io, bool read, bool text)
{
  if (io.num_files() == 0) { return; }
  if (read)
  {
    std::string state;
    if (!_state.load(io, state)) { return; }  // no history in this model: its weights are the first predictor
    if (!deserialize(state)) { _state.throw_damaged("the history cannot be read"); }
  }
  else if (text)
  {
    const auto& history = _tap.history;
    const auto summary =
        fmt::format("opo_rounds = {}\nopo_segments = {}\nopo_history_weights = {}\nopo_history_entries = {}\n",
            history.past().rounds(), history.past().size(), history.weights(), history.entries());
    io.bin_write_fixed(summary.data(), summary.size());
  }
  else { _state.save(io, serialize()); }
}

std::string cb_explore_adf_opo_cmab::serialize() const
{
  std::string state;
  const auto append_bytes = [&state](const void* bytes, std::size_t size)
  { state.append(static_cast<const char*>(bytes), size); };
  const uint64_t ranges = _ranges.entries().size();
  append_bytes(&ranges, sizeof(ranges));
  for (const auto& entry : _ranges.entries())
  {
    append_bytes(&entry.predictor, sizeof(entry.predictor));
    append_bytes(&entry.low, sizeof(entry.low));
    append_bytes(&entry.high, sizeof(entry.high));
    append_bytes(&entry.start, sizeof(entry.start));
  }
  return state + _tap.history.serialize();
}

bool cb_explore_adf_opo_cmab::deserialize(const std::string& state)
{
  std::size_t next = 0;
  if (_state.saved_version() > 3)  // format 3 is the history alone
  {
    const auto read = [&](void* value, std::size_t size)
    {
      if (state.size() - next < size) { return false; }
      std::memcpy(value, state.data() + next, size);
      next += size;
      return true;
    };
    uint64_t count = 0;
    if (!read(&count, sizeof(count)) || count > state.size()) { return false; }
    std::vector<opo_cmab::range_history::entry> entries(count);
    for (auto& entry : entries)
    {
      if (!read(&entry.predictor, sizeof(entry.predictor)) || !read(&entry.low, sizeof(entry.low)) ||
          !read(&entry.high, sizeof(entry.high)) || !read(&entry.start, sizeof(entry.start)))
      {
        return false;
      }
    }
    if (!_ranges.restore(std::move(entries))) { return false; }
  }
  return _tap.history.deserialize(state.data() + next, state.size() - next);
}

/// Allows only learners with predictions that are linear in the weights, and weights that only learning changes: past
/// predictions can then be rebuilt from past weights.
void require_linear(const learner& base, VW::workspace& all)
{
  const auto other = opo_cmab::first_nonlinear(base);
  if (!other.empty())
  {
    THROW("--opo_cmab does not work with "
        << other
        << ": it needs a linear learner, least squares (the default), gd, --ftrl, "
           "--coin or --pistol, and nothing between it and the bandit. Leave out the flag of "
        << other);
  }
  if (all.loss_config.l1_lambda > 0.f)
  {
    THROW("--opo_cmab does not work with --l1: it cannot rebuild past models under --l1. Leave it out");
  }
  if (all.loss_config.l2_lambda > 0.f)
  {
    THROW("--opo_cmab does not work with --l2: it cannot rebuild past models under --l2. Leave it out");
  }
}

[[noreturn]] void refuse_both(const std::string& one, const std::string& other)
{
  THROW("--" << one << " and --" << other
             << ": give only one of them. A model that is loaded (-i) has its own, and keeps it");
}

/// Sets what --opo_paper implies, and refuses what contradicts it.
template <typename T>
void imply(options_i& options, const std::string& flag, T& value, const T& implied)
{
  if (options.was_supplied(flag) && value != implied)
  {
    THROW("--opo_paper implies --" << flag << " " << implied << ", not " << value << ": leave out --" << flag);
  }
  value = implied;
}

template <typename Explorer>
void persist_metrics(cb_explore_adf_base<Explorer>& data, VW::metric_sink& metrics)
{
  cb_explore_adf_base<Explorer>::persist_metrics(data, metrics);
  data.explore.persist_metrics(metrics);
}
}  // namespace

opo_cmab::explaining::explaining(explanations& target) { explained = &target; }
opo_cmab::explaining::~explaining() { explained = nullptr; }

std::shared_ptr<learner> VW::reductions::cb_explore_adf_opo_cmab_setup(VW::setup_base_i& stack_builder)
{
  options_i& options = *stack_builder.get_options();
  VW::workspace& all = *stack_builder.get_all_pointer();
  bool opo_cmab_option = false;
  float eta = 0.f;
  float gamma = 0.f;
  float beta = 0.f;
  float scale = 0.f;
  float decay = 0.f;
  int32_t budget = 0;
  bool importance_weighted = false;
  bool paper = false;
  opo_cmab::explorer_options explorer;

  option_group_definition new_options("[Reduction] Contextual Bandit Exploration with ADF (OPO-CMAB)");
  new_options
      .add(
          make_option("opo_cmab", opo_cmab_option)
              .keep()
              .necessary()
              .help(
                  "Optimistic policy optimization (OPO-CMAB) exploration: exponential weights on optimistic losses. It "
                  "learns by least squares, whose widths are the bonus. With any --opo_ option below, or a learner "
                  "other than least squares, it replays the predictions of past models, as Algorithm 1 of the paper "
                  "does; the proof covers --opo_paper"))
      .add(
          make_option("opo_eta", eta)
              .keep()
              .default_value(20.f)
              .help("Learning rate of the policy. A larger value concentrates it sooner on the action that looks best"))
      .add(make_option("opo_gamma", gamma)
               .keep()
               .help("Size of the exploration bonus, instead of --opo_scale: beta_k = [opo_gamma]*sqrt(k/[num "
                     "actions]) in round k. A larger value explores more"))
      .add(make_option("opo_beta", beta)
               .keep()
               .help("Constant size of the exploration bonus, the beta of Algorithm 1, instead of --opo_scale"))
      .add(
          make_option("opo_scale", scale)
              .keep()
              .default_value(0.25f)
              .help("Size of the exploration bonus: gamma is [opo_scale] times the lowest loss that the model predicts "
                    "for the context, from 0 (lower end of the cost range) to 1 (upper end). A larger value explores "
                    "more"))
      .add(
          make_option("opo_decay", decay)
              .keep()
              .default_value(.8f)
              .help("Forgetting: in each round pi_{k+1} is proportional to pi_k^[opo_decay]*exp(-[opo_eta]*loss). 1 is "
                    "Algorithm 1; smaller values forget old models"))
      .add(make_option("opo_budget", budget)
               .keep()
               .default_value(32)
               .help("Keep the past in at most this many segments, so that a decision takes at most this many steps, "
                     "however long the stream. 0 is exact: one step for each past round"))
      .add(make_option("opo_importance_weighted", importance_weighted)
               .keep()
               .help("Weight examples by the inverse of their logged probability when learning, as the paper's "
                     "experiments do. Algorithm 1 does not"))
      .add(
          make_option("opo_paper", paper)
              .keep()
              .help("The paper's Algorithm 1, without our additions: --opo_decay 1 --opo_budget 0 --cb_cost_unit raw, "
                    "costs from 0 to 1 unless --cb_min_cost and --cb_max_cost are given; --opo_eta 100 and --opo_gamma "
                    "0.1 unless given"));
  if (!explorer.add_and_parse(new_options, options)) { return nullptr; }

  const auto settings_of_replay = {"opo_beta", "opo_budget", "opo_decay", "opo_eta", "opo_gamma",
      "opo_importance_weighted", "opo_paper", "opo_scale"};
  const bool replays = std::any_of(settings_of_replay.begin(), settings_of_replay.end(),
      [&](const char* name) { return options.was_supplied(name); });
  if (!replays && opo_cmab::takes_least_squares(options, all))
  {
    explorer.prepare("opo_cmab", stack_builder, {}, true);
    opo_cmab::parts_of(stack_builder).without_history = true;
    auto exact_base = require_multiline(stack_builder.setup_base_learner());
    require_linear(*exact_base, all);
    return opo_cmab::make_explorer<cb_explore_adf_optimistic>(stack_builder, cb_explore_adf_opo_cmab_setup, exact_base,
        explorer.epsilon, opo_cmab::parts_of(stack_builder), *exact_base)
        .set_persist_metrics(persist_metrics<cb_explore_adf_optimistic>)
        .build();
  }
  if (options.was_supplied("least_squares"))  // the history would note a part of the weights that change, if any
  {
    const auto* given = std::find_if(settings_of_replay.begin(), settings_of_replay.end(),
        [&](const char* name) { return options.was_supplied(name); });
    THROW("--" << (replays ? *given : "cb_cost_unit raw")
               << " asks for --opo_cmab's replay of the past, which needs another learner: leave out --least_squares");
  }
  if (paper)
  {
    if (options.was_supplied("opo_scale")) { refuse_both("opo_paper", "opo_scale"); }
    if (!options.was_supplied("opo_eta")) { eta = 100.f; }
    if (!options.was_supplied("opo_gamma")) { gamma = 0.1f; }
    imply(options, "opo_decay", decay, 1.f);
    imply(options, "opo_budget", budget, 0);
  }
  std::vector<std::string> bonuses;
  for (const auto* flag : {"opo_beta", "opo_gamma", "opo_scale"})
  {
    if (options.was_supplied(flag)) { bonuses.emplace_back(flag); }
  }
  if (bonuses.size() > 1) { refuse_both(bonuses[0], bonuses[1]); }
  const std::string bonus = !bonuses.empty() ? bonuses[0] : paper ? "opo_gamma" : "opo_scale";
  opo_cmab::require_nonnegative("--opo_eta", eta);
  opo_cmab::require_nonnegative("--opo_gamma", gamma);
  opo_cmab::require_nonnegative("--opo_beta", beta);
  opo_cmab::require_nonnegative("--opo_scale", scale);
  if (!(decay >= 0.f && decay <= 1.f)) { THROW("--opo_decay must be in [0, 1]: " << decay); }
  if (budget < 0 || budget == 1) { THROW("--opo_budget must be 0 (exact) or at least 2: " << budget); }
  if (options.was_supplied("feature_mask")) { THROW("--opo_cmab does not work with --feature_mask: leave it out"); }
  if (stack_builder.get_feature_width_above() != 1)
  {
    THROW("--opo_cmab does not work with "
        << (options.was_supplied("epsilon_decay") ? "--epsilon_decay" : "a reduction above it")
        << ", which keeps several models and copies weights between them outside of learning: leave it out");
  }
  opo_cmab::check_daemon(options, all, "opo_cmab");

  const float bonus_size = bonus == "opo_beta" ? beta : bonus == "opo_gamma" ? gamma : scale;
  explorer.prepare(
      "opo_cmab", stack_builder, {{"opo_eta", eta}, {"opo_decay", decay}, {bonus.c_str(), bonus_size}}, false);
  opo_cmab::keep_option(options, "opo_budget", std::to_string(budget));

  auto base = require_multiline(stack_builder.setup_base_learner());
  require_linear(*base, all);

  opo_cmab::policy_settings settings;
  settings.eta = eta;
  settings.decay = decay;
  settings.gamma = gamma;
  if (bonus == "opo_beta") { settings.beta = beta; }
  return opo_cmab::make_explorer<cb_explore_adf_opo_cmab>(stack_builder, cb_explore_adf_opo_cmab_setup, base, settings,
      bonus == "opo_scale" ? scale : -1., explorer.epsilon, importance_weighted, opo_cmab::parts_of(stack_builder),
      *base, all)
      .set_persist_metrics(persist_metrics<cb_explore_adf_opo_cmab>)
      .build();
}
