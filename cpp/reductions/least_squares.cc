#include "reductions/least_squares.h"

#include "kernel/least_squares.h"
#include "reductions/explorer_setup.h"
#include "reductions/explorer_state.h"
#include "reductions/parts.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/example.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/loss_functions.h"
#include "vw/core/memory.h"
#include "vw/core/metric_sink.h"
#include "vw/core/parse_regressor.h"
#include "vw/core/reductions/gd.h"
#include "vw/core/setup_base.h"
#include "vw/core/simple_label.h"
#include "vw/core/simple_label_parser.h"

#include <cfloat>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

/*
This file implements --least_squares, a base learner beside gd and ftrl: regularized least squares in blocks of weights
(kernel/least_squares.h). The weights in VW's own array are a copy, made when somebody reads them.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace
{
float base_margin(const VW::example& ec)
{
  return ec.ex_reduction_features.get<VW::simple_label_reduction_features>().initial;
}

void add_feature(std::vector<opo_cmab::feature>& features, float value, uint64_t index)
{
  features.push_back({index, value});
}

}  // namespace

namespace opo_cmab
{
least_squares_learner::least_squares_learner(VW::workspace& all, uint32_t block, float penalty)
    : _all(all)
    , _model(block, penalty)
    , _relative_to_mean(penalty == 0.f)
    , _times(all.output_runtime.global_metrics.are_metrics_enabled())
    , _audits(all.output_config.audit || all.output_config.hash_inv)
    , _state("least_sq", nullptr, STATE_VERSION)
{
}

void least_squares_learner::show_losses(double low, double high, double initial)
{
  _shows_losses = true;
  _low = low;
  _width = high - low;
  _initial = low + initial * _width;
}

void least_squares_learner::start_noting()
{
  _notes = true;
  _noted.clear();
}

const std::vector<double>& least_squares_learner::stop_noting()
{
  _notes = false;
  return _noted;
}

double least_squares_learner::initial() const
{
  return _shows_losses ? _initial : _relative_to_mean ? _model.mean() : 0.;
}

/// Notes the features of an example, with the numbers of their weights.
void least_squares_learner::look_at(VW::example& ec)
{
  _features.clear();
  size_t interactions = 0;
  VW::foreach_feature<std::vector<feature>, uint64_t, add_feature>(_all, ec, _features, interactions);
  ec.num_features_from_interactions = interactions;
  const uint64_t mask = _all.weights.mask();
  for (auto& feature : _features)
  {
    feature.weight &= mask;
    if (std::isfinite(feature.value)) { continue; }
    feature.value = 0.f;
    if (_warned_of_feature) { continue; }
    _warned_of_feature = true;
    _all.logger.err_warn(
        "A feature is not a finite number, or too large for one. It counts as 0. Further such features are not "
        "reported.");
  }
}

void least_squares_learner::show(VW::example& ec, double prediction) const
{
  ec.partial_prediction = base_margin(ec) + static_cast<float>((prediction - _low) / _width);
  ec.pred.scalar = ec.partial_prediction;
}

void least_squares_learner::audit(VW::example& ec)
{
  copy_weights();
  VW::details::print_audit_features(_all, ec);
}

void least_squares_learner::predict(VW::example& ec)
{
  look_at(ec);
  show(ec, _model.predict(_features, initial()));
  if (_notes) { _noted.push_back(_model.variance(_features)); }
  if (_audits) { audit(ec); }
}

void least_squares_learner::learn(VW::example& ec)
{
  const float label = ec.l.simple.label;
  if (label == FLT_MAX) { return predict(ec); }
  if (!std::isfinite(label)) { THROW("the label " << label << " is not finite: labels must be finite numbers"); }
  if (_audits) { predict(ec); }  // with the weights of this prediction
  const auto start = _times ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  look_at(ec);
  const double prediction =
      _model.learn(_features, static_cast<double>(label) - base_margin(ec), counts_as_one ? 1. : ec.weight, initial());
  if (_times) { _learning += std::chrono::steady_clock::now() - start; }
  show(ec, prediction);
}

/// The derivative of the prediction by the weight of an example with this label: v times the error.
float least_squares_learner::sensitivity(VW::example& ec)
{
  look_at(ec);
  return static_cast<float>(_model.variance(_features) * std::abs(ec.l.simple.label - ec.pred.scalar));
}

void least_squares_learner::copy_weights()
{
  for (size_t i = 0; i < _model.weights(); ++i)
  {
    _all.weights[_model.weight_number(i)] = static_cast<float>(_model.weight(i, initial()));
  }
}

void least_squares_learner::save_load(VW::io_buf& io, bool read, bool text)
{
  if (read) { VW::details::initialize_regressor(_all); }
  if (io.num_files() == 0) { return; }
  if (read)
  {
    std::string state;
    _state.load(io, state);
    if (!_model.deserialize(state.data(), state.size()))
    {
      _state.throw_damaged("it is not of this --ls_block and --ls_penalty, or its content cannot be right");
    }
    copy_weights();
  }
  else if (text)
  {
    copy_weights();
    VW::details::save_load_regressor_gd(_all, io, false, true);
  }
  else { _state.save(io, _model.serialize()); }
}

void least_squares_learner::end_pass()
{
  if (_all.output_model_config.save_per_pass)
  {
    VW::details::save_predictor(_all, _all.output_model_config.final_regressor_name, _all.passes_config.current_pass);
  }
  if (_all.passes_config.holdout_set_off) { return; }
  if (VW::details::summarize_holdout_set(_all, _no_win_counter))
  {
    VW::details::finalize_regressor(_all, _all.output_model_config.final_regressor_name);
  }
  if (early_terminate == _no_win_counter &&
      (_all.passes_config.check_holdout_every_n_passes <= 1 ||
          _all.passes_config.current_pass % _all.passes_config.check_holdout_every_n_passes == 0))
  {
    VW::details::set_done(_all);
  }
}

void least_squares_learner::persist_metrics(VW::metric_sink& metrics) const
{
  metrics.set_float("ls_penalty", _model.penalty());
  metrics.set_bool("ls_in_blocks", _model.in_blocks());
  metrics.set_uint("ls_blocks", _model.blocks());
  metrics.set_uint("ls_weights", _model.weights());
  metrics.set_uint("ls_bytes", _model.bytes());
  metrics.set_uint("ls_learn_microseconds",
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(_learning).count()));
}

std::string refused_by_least_squares(const options_i& options)
{
  for (const auto* flag : {// settings of gradient descent, and initial weights
           "adaptive", "adax", "decay_learning_rate", "feature_mask", "initial_t", "initial_weight", "invariant", "l",
           "l1", "l1_state", "l2", "l2_state", "learning_rate", "normal_weights", "normalized", "power_t",
           "random_positive_weights", "random_weights", "sgd", "sparse_l2", "truncated_normal_weights",
           // other learners
           "bfgs", "coin", "conjugate_gradient", "freegrad", "ftrl", "ksvm", "noop", "OjaNewton", "pistol", "print",
           "rank", "sendto", "svrg",
           // reductions that read or write weights themselves
           "automl", "cbzo", "epsilon_decay", "lrq", "lrqfa", "nn", "span_server", "stage_poly"})
  {
    if (options.was_supplied(flag)) { return flag; }
  }
  return "";
}
}  // namespace opo_cmab

namespace
{
using opo_cmab::least_squares_learner;

void predict(least_squares_learner& data, VW::example& ec) { data.predict(ec); }
void learn(least_squares_learner& data, VW::example& ec) { data.learn(ec); }
float sensitivity(least_squares_learner& data, VW::example& ec) { return data.sensitivity(ec); }
void save_load(least_squares_learner& data, VW::io_buf& io, bool read, bool text) { data.save_load(io, read, text); }
void end_pass(least_squares_learner& data) { data.end_pass(); }
void persist_metrics(least_squares_learner& data, VW::metric_sink& metrics) { data.persist_metrics(metrics); }

void refuse_what_cannot_work(const options_i& options, const VW::workspace& all)
{
  const auto loss = all.loss_config.loss->get_type();
  if (loss != "squared" && loss != "classic")
  {
    THROW("--least_squares learns with squared loss: leave out --loss_function " << loss);
  }
  const auto refused = opo_cmab::refused_by_least_squares(options);
  if (!refused.empty()) { THROW("--" << refused << " does not work with --least_squares: leave out one of them"); }
}
}  // namespace

std::shared_ptr<learner> VW::reductions::least_squares_setup(VW::setup_base_i& stack_builder)
{
  options_i& options = *stack_builder.get_options();
  VW::workspace& all = *stack_builder.get_all_pointer();
  bool least_squares_option = false;
  uint32_t block = 0;
  float penalty = 0.f;

  option_group_definition new_options("[Reduction] Least Squares");
  new_options
      .add(make_option("least_squares", least_squares_option)
               .keep()
               .necessary()
               .help("Learn by regularized least squares instead of gradient descent: exact for weights that share a "
                     "block, with nothing to tune"))
      .add(make_option("ls_block", block)
               .keep()
               .default_value(32)
               .help("The most weights in a block, from 1 (each for itself) to 1024. Time and memory for a weight grow "
                     "with it"))
      .add(make_option("ls_penalty", penalty)
               .keep()
               .help("Use ridge regression with this penalty, in the units of the features. Default: several penalties "
                     "side by side, relative to the largest value of each feature; the one with the least recent "
                     "error predicts"));
  if (!options.add_parse_and_check_necessary(new_options))
  {
    for (const auto* flag : {"ls_block", "ls_penalty"})
    {
      if (options.was_supplied(flag)) { THROW("--" << flag << " needs --least_squares: add it"); }
    }
    return nullptr;
  }
  refuse_what_cannot_work(options, all);
  opo_cmab::check_daemon(options, all, "least_squares");
  if (block < 1 || block > opo_cmab::least_squares::LARGEST_BLOCK)
  {
    THROW("--ls_block must be from 1 to " << opo_cmab::least_squares::LARGEST_BLOCK << ": " << block);
  }
  if (options.was_supplied("ls_penalty") && !(penalty > 0.f && std::isfinite(penalty)))
  {
    THROW("--ls_penalty must be above 0 and finite: " << penalty);
  }
  opo_cmab::keep_option(options, "ls_block", std::to_string(block));

  auto data = VW::make_unique<least_squares_learner>(all, block, penalty);
  if (!all.passes_config.holdout_set_off)
  {
    all.sd->holdout_best_loss = FLT_MAX;
    data->early_terminate = options.get_typed_option<uint64_t>("early_terminate").value();
  }
  all.weights.stride_shift(0);
  opo_cmab::parts_of(stack_builder).least_squares = data.get();
  return make_bottom_learner(std::move(data), learn, predict, stack_builder.get_setupfn_name(least_squares_setup),
      VW::prediction_type_t::SCALAR, VW::label_type_t::SIMPLE)
      .set_learn_returns_prediction(true)
      .set_sensitivity(sensitivity)
      .set_save_load(save_load)
      .set_end_pass(end_pass)
      .set_persist_metrics(persist_metrics)
      .set_output_example_prediction(VW::details::output_example_prediction_simple_label<least_squares_learner>)
      .set_update_stats(VW::details::update_stats_simple_label<least_squares_learner>)
      .set_print_update(VW::details::print_update_simple_label<least_squares_learner>)
      .build();
}
