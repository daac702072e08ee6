#pragma once

#include "reductions/explorer_state.h"
#include "reductions/parts.h"
#include "vw/config/option_group_definition.h"
#include "vw/core/action_score.h"
#include "vw/core/cb.h"
#include "vw/core/io_buf.h"
#include "vw/core/learner.h"
#include "vw/core/multi_ex.h"
#include "vw/core/reductions/cb/cb_explore_adf_common.h"
#include "vw/core/setup_base.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

// Shared by our explorers: --opo_cmab, --fastcb and --adacb.
namespace opo_cmab
{
/// Options of all our explorers.
class explorer_options
{
public:
  float epsilon = 0.f;

  /// Adds them to the explorer's own and parses them all.
  /// \return whether the explorer was asked for
  bool add_and_parse(VW::config::option_group_definition& group, VW::config::options_i& options);

  /// Refuses flags that an explorer cannot work with, by name. Makes VW save the settings in use with the model, loss
  /// function included. Turns on the cost unit. Call it before the base is set up.
  /// \param flag the explorer's own, without the dashes
  /// \param settings its other settings: saved even if they are defaults, so that a new default in a later version
  ///        cannot change an old model
  /// \param exact whether it learns by least squares
  void prepare(const std::string& flag, VW::setup_base_i& stack_builder,
      std::initializer_list<std::pair<const char*, float>> settings, bool exact);

private:
  bool _cb_explore_adf = false;
  std::string _cb_type;
};

/// How fast inverse gap weighting turns greedy: gamma = scale * rounds^exponent.
class greediness
{
public:
  float scale = 10.f;
  float exponent = 0.5f;

  void add_to(VW::config::option_group_definition& group);
  void check() const;
  double gamma(uint64_t rounds) const;
};

/// Whether our explorers learn by least squares: unless the command line names something that needs another learner, or
/// a loaded model has one.
bool takes_least_squares(VW::config::options_i& options, const VW::workspace& all);

/// Throws unless value >= 0 and finite.
void require_nonnegative(const std::string& flag, float value);

/// Makes VW save an option with the model, with this value if it was not given.
void keep_option(VW::config::options_i& options, const std::string& name, const std::string& value);

/// Makes VW save the learner's options that it does not save itself, if they were given: a model resumed with other
/// ones would learn something else. Call it after the base is set up.
void keep_learner_options(VW::config::options_i& options);

/// Refuses VW's daemon where it would learn in several processes: they share one weight vector, and the state of each
/// would miss the changes of the others.
void check_daemon(VW::config::options_i& options, const VW::workspace& all, const std::string& flag);

/// Finds out whether the model being loaded holds an explorer's state, and makes VW mark saved models accordingly.
void take_saved_state(VW::config::options_i& options, parts& ours);

/// \return the name of the first reduction of a stack that is not known to predict linearly in weights that only
/// learning changes, or an empty one
std::string first_nonlinear(const VW::LEARNER::learner& base);

/// The label with the observed cost, or nullptr.
VW::cb_class* find_observed(VW::multi_ex& examples);

/// Gives every action the same probability: there is nothing to compare before the cost range is known.
void make_uniform(VW::action_scores& predictions);

/// Lets cb_adf (mtr) learn, then restores the predictions. Unless importance weighted, it learns with a logged
/// probability of 1. mtr still multiplies the weight by rounds / actions so far (1 / |A| for action sets of one size),
/// as for every explorer of VW.
void learn_round(VW::LEARNER::learner& base, VW::multi_ex& examples, bool importance_weighted = false);

/// The number of labelled rounds learnt so far. FastCB and AdaCB have no other state.
class round_counter
{
public:
  explicit round_counter(explorer_state state, std::string name) : _state(std::move(state)), _name(std::move(name)) {}

  uint64_t value = 0;

  void save_load(VW::io_buf& io, bool read, bool text);

private:
  explorer_state _state;
  std::string _name;
};

/// Builds the learner of an explorer, between cb_adf (or its link) below and probabilities above, as VW builds its own.
template <typename ExploreType, typename... Args>
auto make_explorer(VW::setup_base_i& stack_builder, VW::reduction_setup_fn setup,
    std::shared_ptr<VW::LEARNER::learner> base, Args&&... args)
{
  using explore_type = VW::cb_explore_adf::cb_explore_adf_base<ExploreType>;
  keep_learner_options(*stack_builder.get_options());
  const bool with_metrics = stack_builder.get_all_pointer()->output_runtime.global_metrics.are_metrics_enabled();
  return VW::LEARNER::make_reduction_learner(VW::make_unique<explore_type>(with_metrics, std::forward<Args>(args)...),
      std::move(base), explore_type::learn, explore_type::predict, stack_builder.get_setupfn_name(setup))
      .set_input_label_type(VW::label_type_t::CB)
      .set_output_label_type(VW::label_type_t::CB)
      .set_input_prediction_type(VW::prediction_type_t::ACTION_SCORES)
      .set_output_prediction_type(VW::prediction_type_t::ACTION_PROBS)
      .set_output_example_prediction(explore_type::output_example_prediction)
      .set_update_stats(explore_type::update_stats)
      .set_print_update(explore_type::print_update)
      .set_persist_metrics(explore_type::persist_metrics)
      .set_save_load(explore_type::save_load);
}
}  // namespace opo_cmab
