#include "reductions/cb_cost_unit.h"

#include "reductions/cb_shared_features.h"
#include "reductions/explorer_setup.h"
#include "reductions/least_squares.h"
#include "reductions/parts.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/cb.h"
#include "vw/core/example.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/loss_functions.h"
#include "vw/core/scope_exit.h"
#include "vw/core/setup_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstring>

/*
All handling of cost units is here, directly above cb_adf. Users write a click as -1, a latency in milliseconds, a price
in euros; gd's steps suit labels of about 1; and explorers compare costs with bonuses. So costs are mapped to labels on
their way down, independent of their unit, and scores to losses in [0, 1] on their way up. Under logistic loss scores
are margins, and become losses through the sigmoid. Sensitivities (RegCB, AdaCB) follow by the chain rule.

The cost range is learnt. Limits (--cb_min_cost, --cb_max_cost) clip the costs and change nothing else; without the
mapping (raw) they are the range.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace opo_cmab
{
namespace
{
/// The label of the first costs, while they are all equal: that of the worst cost, as if clicks are rare. If they turn
/// out to be the best cost, the label is too large; on data sets that made no difference.
constexpr double FIRST_LABEL = 0.75;
}  // namespace

double cost_unit::observe(double cost)
{
  const bool was_known = range.known();
  const double first_cost = range.max();
  const double counts_as = range.observe(cost);
  if (!was_known && range.known()) { negative = std::isfinite(first_cost) && range.max() > first_cost; }
  return raw ? cost : counts_as;
}

float cost_unit::label(double cost) const
{
  if (raw) { return static_cast<float>(cost); }
  if (!range.known()) { return static_cast<float>(logistic ? 1. : FIRST_LABEL); }
  const double loss = range.loss(cost);
  if (!logistic) { return static_cast<float>(sign() * (loss - range.start())); }
  const double clipped = std::min(1., std::max(0., loss));
  return static_cast<float>(negative ? 1. - clipped : clipped);
}

// The explorer sees offset + scale * score, or offset + scale * sigmoid(score).
double cost_unit::offset() const
{
  if (!raw) { return !logistic ? range.start() : negative ? 1. : 0.; }
  if (shows_costs) { return label_min; }
  return ((logistic ? label_min : 0.) - low()) / (high() - low());
}

double cost_unit::scale() const
{
  if (!raw) { return sign(); }
  const double labels = logistic ? label_max - label_min : 1.;
  return shows_costs ? labels : labels / (high() - low());
}

double cost_unit::newcomer_loss() const { return range.newcomer_loss(offset() + (logistic ? 0.5 : 0.) * scale()); }

float cost_unit::seen(float score) const
{
  if (score == 0.f && range.knows_newcomers()) { return static_cast<float>(newcomer_loss()); }
  const auto a = static_cast<float>(offset());
  const auto b = static_cast<float>(scale());
  return logistic ? a + b / (1.f + std::exp(-score)) : a + b * score;
}

namespace
{
float sigmoid_of(float seen, double offset, double scale)  // kept off 0 and 1, where the margin is infinite
{
  const auto p = static_cast<float>((seen - offset) / scale);
  return std::min(std::max(p, FLT_EPSILON), 1.f - FLT_EPSILON);
}
}  // namespace

float cost_unit::score_of(float seen) const
{
  if (!logistic) { return static_cast<float>((seen - offset()) / scale()); }
  const float p = sigmoid_of(seen, offset(), scale());
  return std::log(p / (1.f - p));
}

float cost_unit::label_of(float seen) const
{
  if (!raw) { return static_cast<float>((seen - offset()) / scale()); }
  return shows_costs ? seen : static_cast<float>(low() + (high() - low()) * seen);
}

float cost_unit::slope_at(float seen) const
{
  const auto b = static_cast<float>(std::abs(scale()));
  if (!logistic) { return b; }
  const float p = sigmoid_of(seen, offset(), scale());
  return b * p * (1.f - p);
}

opo_cmab::loss_map cost_unit::loss_map(const range_history& ranges, const segments& past, double shift) const
{
  opo_cmab::loss_map result;
  result.logistic = logistic;
  if (raw) { result.pieces = {{SIZE_MAX, offset(), scale()}}; }
  else
  {
    result.pieces = ranges.pieces(past, logistic);
    result.largest_plausible = range.largest_plausible_loss() - shift;
    if (range.knows_newcomers()) { result.newcomer = newcomer_loss() - shift; }
    for (auto& piece : result.pieces)
    {
      if (logistic) { piece.offset += piece.scale * offset(); }
      piece.scale *= scale();
      piece.offset -= shift;
    }
  }
  return result;
}
}  // namespace opo_cmab

namespace
{
using opo_cmab::cost_unit;

class cb_cost_unit
{
public:
  /// \param shared nullptr: the regression learns what actions share, and what it predicts for newcomers
  cb_cost_unit(std::unique_ptr<cost_unit> unit, const opo_cmab::shared_features* shared,
      opo_cmab::least_squares_learner* exact, learner& base, uint32_t saved_version, VW::io::logger logger)
      : _unit(std::move(unit))
      , _shared(shared)
      , _exact(exact)
      , _state("costs", &base, saved_version)
      , _logger(std::move(logger))
  {
  }

  void predict(learner& base, VW::multi_ex& examples);
  void learn(learner& base, VW::multi_ex& examples);
  float sensitivity(learner& base, VW::example& ec);
  void save_load(VW::io_buf& io, bool read, bool text);
  void persist_metrics(VW::metric_sink& metrics) const;

private:
  std::unique_ptr<cost_unit> _unit;
  const opo_cmab::shared_features* _shared;
  opo_cmab::least_squares_learner* _exact;  ///< learns costs, and shows losses; nullptr: another learner
  opo_cmab::explorer_state _state;
  VW::io::logger _logger;
  bool _warned_of_cost = false;
  bool _warned_of_far_cost = false;

  void show(VW::multi_ex& examples) const;
  void tell_range(double counts_as) const;
  double observe(float cost);
  void warn_of_far_cost(float cost, double counts_as, double lowest, double highest);
};

void cb_cost_unit::show(VW::multi_ex& examples) const
{
  if (_exact != nullptr) { return; }
  auto& predictions = examples[0]->pred.a_s;
  for (auto& prediction : predictions) { prediction.score = _unit->seen(prediction.score); }
  // VW's explorers expect the best action first.
  if (!_unit->raw && _unit->negative) { std::sort(predictions.begin(), predictions.end()); }
}

/// Before there is a range, all costs are equal to this one.
void cb_cost_unit::tell_range(double counts_as) const
{
  const auto& range = _unit->range;
  if (!range.known()) { _exact->show_losses(counts_as, counts_as + 1., 0.); }
  else { _exact->show_losses(range.low(), range.high(), range.newcomer_loss(range.start())); }
}

void cb_cost_unit::predict(learner& base, VW::multi_ex& examples)
{
  if (_exact != nullptr) { tell_range(0.); }
  base.predict(examples);
  show(examples);
}

void cb_cost_unit::learn(learner& base, VW::multi_ex& examples)
{
  auto* observed = opo_cmab::find_observed(examples);
  const float cost = observed != nullptr ? observed->cost : 0.f;
  auto restore = VW::scope_exit(
      [&]
      {
        if (observed != nullptr) { observed->cost = cost; }
      });
  const double counts_as = observed != nullptr ? observe(cost) : 0.;
  if (_exact != nullptr)
  {
    tell_range(counts_as);
    if (observed != nullptr) { observed->cost = static_cast<float>(counts_as); }
  }
  else if (observed != nullptr) { observed->cost = _unit->label(counts_as); }
  base.learn(examples);
  const bool was_new = _shared != nullptr && (_exact != nullptr ? _exact->learnt_unknown() : _shared->learnt_newcomer);
  if (observed != nullptr && !_unit->raw && was_new) { _unit->range.observe_newcomer(counts_as); }
  if (base.learn_returns_prediction) { show(examples); }
}

/// \return what the cost counts as
double cb_cost_unit::observe(float cost)
{
  if (!std::isfinite(cost)) { THROW("the cost " << cost << " is not finite: costs must be finite numbers"); }
  const auto& range = _unit->range;
  const double clipped = range.clip(cost);
  const double lowest = range.min();
  const double highest = range.max();
  const double counts_as = _unit->observe(cost);
  if (!_unit->raw && counts_as != clipped) { warn_of_far_cost(cost, counts_as, lowest, highest); }
  if (_warned_of_cost || _unit->shows_costs || clipped == cost) { return counts_as; }
  _warned_of_cost = true;
  const char* flag = cost > clipped ? "--cb_max_cost" : "--cb_min_cost";
  _logger.err_warn("The cost {} is {} {} {}. {} Further such costs are not reported.", cost,
      cost > clipped ? "above" : "below", flag, clipped,
      _unit->raw ? "It is learnt as it is, and predictions are clipped to the limit: set both limits so that they hold "
                   "all costs."
                 : fmt::format("It is learnt as {}. If it is right, change {} or drop it.", clipped, flag));
  return counts_as;
}

/// \param lowest, highest the lowest and the highest cost before this one
void cb_cost_unit::warn_of_far_cost(float cost, double counts_as, double lowest, double highest)
{
  if (_warned_of_far_cost) { return; }
  _warned_of_far_cost = true;
  _logger.err_warn(
      "The cost {} is far from all costs so far, {} to {}. It is learnt as {}. Only the first two such costs are "
      "doubted, and further ones are not reported. If it is wrong, give the true limits, such as --cb_min_cost {} "
      "--cb_max_cost {}. If it is right, give {} {}.",
      cost, lowest, highest, counts_as, lowest, highest, cost > highest ? "--cb_max_cost" : "--cb_min_cost", cost);
}

float cb_cost_unit::sensitivity(learner& base, VW::example& ec)
{
  if (_exact != nullptr) { return base.sensitivity(ec); }
  // Prediction and label are in the caller's unit; the loss below needs a score and its label.
  const float prediction = ec.pred.scalar;
  const float label = ec.l.simple.label;
  ec.pred.scalar = _unit->score_of(prediction);
  ec.l.simple.label = _unit->label_of(label);
  const float below = base.sensitivity(ec);
  ec.pred.scalar = prediction;
  ec.l.simple.label = label;
  return below * _unit->slope_at(prediction);
}

class saved_unit
{
public:
  opo_cmab::cost_range::state range;
  uint64_t negative;
};

/// Models of formats 5 and 6 lack the last three numbers of the range, those of format 7 the last two.
void add_missing(std::string& bytes, uint32_t version)
{
  const std::size_t missing = (version < 7 ? 3 : 2) * sizeof(uint64_t);
  bytes.insert(std::min(bytes.size(), offsetof(saved_unit, negative) - missing), missing, '\0');
}

/// The state in models of format 4, where the limits were the range.
class saved_unit_4
{
public:
  double min;
  double max;
  double start;
  double sum;  ///< of all costs, each less min
  uint64_t count;
  uint64_t negative;
};

saved_unit upgrade(const saved_unit_4& old)
{
  saved_unit result = {{}, old.negative};
  if (old.count == 0) { return result; }
  auto& range = result.range;
  range.min = old.min;
  range.max = old.max;
  range.start = old.start;
  range.low = old.min;
  range.high = old.max;
  const auto n = static_cast<double>(old.count);
  range.sum = old.sum + n * old.min;
  // Format 4 has no sum of squares. This one is exact if all costs were at the limits, as for clicks.
  range.squares = old.sum * (old.max + old.min) + n * old.min * old.min;
  range.count = old.count;
  return result;
}

template <typename T>
bool copy_from(const std::string& bytes, T& value)
{
  if (bytes.size() != sizeof(value)) { return false; }
  std::memcpy(&value, bytes.data(), sizeof(value));
  return true;
}

void cb_cost_unit::save_load(VW::io_buf& io, bool read, bool text)
{
  if (io.num_files() == 0) { return; }
  if (text)
  {
    const auto line = _unit->known() ? fmt::format("cost_range = {} to {}\n", _unit->low(), _unit->high())
                                     : std::string("cost_range = not known yet\n");
    io.bin_write_fixed(line.data(), line.size());
    return;
  }
  if (!read)
  {
    const saved_unit saved = {_unit->range.save(), _unit->negative ? uint64_t{1} : 0};
    _state.save(io, {reinterpret_cast<const char*>(&saved), sizeof(saved)});
    return;
  }
  std::string bytes;
  if (!_state.load(io, bytes)) { return; }
  saved_unit saved = {};
  saved_unit_4 old = {};
  const bool is_old = _state.saved_version() == 4;
  if (_state.saved_version() > 4 && _state.saved_version() < 8) { add_missing(bytes, _state.saved_version()); }
  if (is_old ? !copy_from(bytes, old) : !copy_from(bytes, saved)) { _state.throw_damaged("its size is wrong"); }
  if (is_old) { saved = upgrade(old); }
  _unit->negative = saved.negative != 0;
  if (!_unit->range.restore(saved.range)) { _state.throw_damaged("the cost range cannot be read"); }
}

void cb_cost_unit::persist_metrics(VW::metric_sink& metrics) const
{
  metrics.set_bool("cost_range_known", _unit->known());
  if (!_unit->known()) { return; }
  if (_unit->range.known())
  {
    metrics.set_float("cost_min", static_cast<float>(_unit->range.min()));
    metrics.set_float("cost_max", static_cast<float>(_unit->range.max()));
  }
  metrics.set_float("cost_range_low", static_cast<float>(_unit->low()));
  metrics.set_float("cost_range_high", static_cast<float>(_unit->high()));
}

void predict(cb_cost_unit& data, learner& base, VW::multi_ex& examples) { data.predict(base, examples); }
void learn(cb_cost_unit& data, learner& base, VW::multi_ex& examples) { data.learn(base, examples); }
float sensitivity(cb_cost_unit& data, learner& base, VW::example& ec) { return data.sensitivity(base, ec); }
void save_load(cb_cost_unit& data, VW::io_buf& io, bool read, bool text) { data.save_load(io, read, text); }
void persist_metrics(cb_cost_unit& data, VW::metric_sink& metrics) { data.persist_metrics(metrics); }

/// Sets the limits that the user, the model or cbify (--loss0, --loss1) gives.
void set_limits(opo_cmab::cost_range& range, options_i& options, float min, float max, bool zero_to_one)
{
  bool has_min = options.was_supplied("cb_min_cost");
  bool has_max = options.was_supplied("cb_max_cost");
  if (options.was_supplied("loss0") || options.was_supplied("loss1"))
  {
    const float sign = options.was_supplied("flip_loss_sign") ? -1.f : 1.f;
    const auto costs = std::minmax({sign * options.get_typed_option<float>("loss0").value(),
        sign * options.get_typed_option<float>("loss1").value()});
    if (!has_min) { min = costs.first; }
    if (!has_max) { max = costs.second; }
    has_min = has_max = true;
  }
  if (zero_to_one)
  {
    if (!has_min) { min = 0.f; }
    if (!has_max) { max = 1.f; }
    has_min = has_max = true;
  }
  const bool finite = (!has_min || std::isfinite(min)) && (!has_max || std::isfinite(max));
  if (!finite || (has_min && has_max && !(min < max)))
  {
    THROW("--cb_min_cost must be below --cb_max_cost, both finite: " << min << " and " << max);
  }
  if (has_min)
  {
    range.limit_from_below(min);
    opo_cmab::keep_option(options, "cb_min_cost", fmt::format("{}", min));
  }
  if (has_max)
  {
    range.limit_from_above(max);
    opo_cmab::keep_option(options, "cb_max_cost", fmt::format("{}", max));
  }
}

void check_range_unit(const options_i& options, bool explorer_is_ours, float min, float max)
{
  for (const auto* flag : {"min_prediction", "max_prediction", "logistic_min", "logistic_max"})
  {
    if (options.was_supplied(flag))
    {
      THROW("--" << flag
                 << " does not work with costs that are mapped to their range: leave it out, or add "
                    "--cb_cost_unit raw");
    }
  }
  if (!options.was_supplied("cb_explore_adf")) { THROW("--cb_cost_unit range needs --cb_explore_adf: add it"); }
  if (options.was_supplied("cb_type") && options.get_typed_option<std::string>("cb_type").value() != "mtr")
  {
    THROW("--cb_cost_unit range needs --cb_type mtr, the default: leave out --cb_type");
  }
  if (explorer_is_ours) { return; }

  // The mapping suits those of VW's explorers that read only scores.
  for (const auto* flag : {"cover", "synthcover", "rnd", "graph_feedback", "large_action_space"})
  {
    if (options.was_supplied(flag))
    {
      THROW("--cb_cost_unit range does not work with --" << flag << ": leave out one of them");
    }
  }
  const bool reads_range =
      options.was_supplied("regcb") || options.was_supplied("regcbopt") || options.was_supplied("elim");
  const bool zero_to_one =
      (!options.was_supplied("cb_min_cost") || min == 0.f) && (!options.was_supplied("cb_max_cost") || max == 1.f);
  if (reads_range && !zero_to_one)
  {
    THROW(
        "--cb_cost_unit range learns the range and gives --regcb and --elim losses from 0 to 1: leave out "
        "--cb_min_cost and --cb_max_cost");
  }
}
}  // namespace

std::shared_ptr<learner> VW::reductions::cb_cost_unit_setup(VW::setup_base_i& stack_builder)
{
  options_i& options = *stack_builder.get_options();
  VW::workspace& all = *stack_builder.get_all_pointer();
  auto& parts = opo_cmab::parts_of(stack_builder);
  std::string unit_name;
  std::string link;
  float min_cost = 0.f;
  float max_cost = 0.f;

  option_group_definition new_options("[Reduction] Contextual Bandit Cost Unit");
  new_options
      .add(make_option("cb_cost_unit", unit_name)
               .keep()
               .necessary()
               .one_of({"range", "raw"})
               .help(
                   "range: learn costs as shares of the cost range, so that the unit does not matter. raw: learn costs "
                   "unchanged; under logistic loss, map scores to costs. Default: range for --opo_cmab, --fastcb and "
                   "--adacb; not set for VW's own explorers"))
      .add(make_option("cb_min_cost", min_cost)
               .keep()
               .help("Lower limit: lower costs are clipped to it. Default: no limit; with --cbify, --loss0 if given"))
      .add(make_option("cb_max_cost", max_cost)
               .keep()
               .help("Upper limit: higher costs are clipped to it. Default: no limit; with --cbify, --loss1 if given"))
      .add(make_option("cb_score_link", link).hidden().help("Only in models of format 3; use --cb_cost_unit raw"));
  if (!options.add_parse_and_check_necessary(new_options)) { return nullptr; }

  const bool ours = parts.explorer_is_ours;
  if (options.was_supplied("opo_paper") && unit_name != "raw")
  {
    THROW("--opo_paper implies --cb_cost_unit raw, not " << unit_name << ": leave out --cb_cost_unit");
  }
  auto unit = VW::make_unique<cost_unit>();
  unit->raw = unit_name == "raw";
  unit->range.tames = !unit->raw;
  unit->logistic = all.loss_config.loss->get_type() == "logistic";
  unit->shows_costs = unit->raw && !ours;
  if (!options.was_supplied("cb_adf")) { THROW("--cb_cost_unit needs --cb_explore_adf or --cb_adf: add one of them"); }
  if (unit->shows_costs && !unit->logistic) { return nullptr; }  // nothing to map
  if (unit->logistic && options.was_supplied("link"))
  {
    THROW("--link does not work with --cb_cost_unit, which maps scores to costs itself: leave out --link");
  }
  if (!unit->raw) { check_range_unit(options, ours, min_cost, max_cost); }
  if (!ours) { opo_cmab::take_saved_state(options, parts); }

  const bool zero_to_one = unit->raw && (unit->logistic || options.was_supplied("opo_paper"));
  set_limits(unit->range, options, min_cost, max_cost, zero_to_one);
  if (unit->logistic)
  {
    opo_cmab::keep_option(options, "loss_function", "logistic");
    if (unit->raw)
    {
      opo_cmab::keep_option(options, "logistic_min", fmt::format("{}", unit->low()));
      opo_cmab::keep_option(options, "logistic_max", fmt::format("{}", unit->high()));
      unit->label_min = options.get_typed_option<float>("logistic_min").value();
      unit->label_max = options.get_typed_option<float>("logistic_max").value();
      if (!(unit->label_min < unit->label_max))
      {
        THROW("--logistic_min must be below --logistic_max: " << unit->label_min << " and " << unit->label_max);
      }
    }
    // VW has already created the loss with its default label range, -1 to 1, which does not suit costs: create it
    // again.
    all.loss_config.loss = VW::get_loss_function(all, "logistic", unit->label_min, unit->label_max);
  }

  if (ours)
  {
    const bool learn_all = unit->raw || parts.loads_shared_weights() || options.was_supplied("constant");
    opo_cmab::keep_option(options, "cb_shared_features", learn_all ? "learn" : "auto");
  }

  auto base = require_multiline(stack_builder.setup_base_learner());
  parts.costs = unit.get();
  auto* exact = unit->raw ? nullptr : parts.least_squares;
  if (exact != nullptr) { exact->counts_as_one = ours; }
  const uint32_t saved = parts.saved_state >= 4 ? parts.saved_state : 0;  // format 3 has no such section
  return make_reduction_learner(
      VW::make_unique<cb_cost_unit>(std::move(unit), parts.shared, exact, *base, saved, all.logger), base, learn,
      predict, stack_builder.get_setupfn_name(cb_cost_unit_setup))
      .set_learn_returns_prediction(base->learn_returns_prediction)
      .set_sensitivity(sensitivity)
      .set_save_load(save_load)
      .set_persist_metrics(persist_metrics)
      .build();
}
