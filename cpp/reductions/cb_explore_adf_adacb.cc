#include "reductions/cb_explore_adf_adacb.h"

#include "kernel/inverse_gap_weighting.h"
#include "reductions/cb_cost_unit.h"
#include "reductions/explorer_setup.h"
#include "vw/config/options.h"
#include "vw/core/action_score.h"
#include "vw/core/confidence_sequence_utility.h"
#include "vw/core/learner.h"
#include "vw/core/setup_base.h"
#include "vw/explore/explore.h"

#include <algorithm>
#include <cmath>
#include <vector>

/*
This file implements AdaCB (Foster, Rakhlin, Simchi-Levi and Xu (2020), https://arxiv.org/abs/2010.03104) as in
VW's --squarecb --elim, by the same authors: inverse gap weighting (SquareCB) over the plausible actions (RegCB) only.
VW's version counts each new minimum instead of each survivor, so its probabilities can be negative; this one counts the
survivors.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace
{
class cb_explore_adf_adacb
{
public:
  cb_explore_adf_adacb(float mellowness, const opo_cmab::greediness& greediness, float epsilon,
      const opo_cmab::parts& parts, learner& base)
      : _c0(mellowness)
      , _greediness(greediness)
      , _costs(*parts.costs)
      , _epsilon(epsilon)
      , _rounds({"adacb", &base, parts.saved_state}, "adacb_rounds")
  {
  }

  // Should be called through cb_explore_adf_base for pre/post-processing
  void predict(learner& base, VW::multi_ex& examples);
  void learn(learner& base, VW::multi_ex& examples);
  void save_load(VW::io_buf& io, bool read, bool text) { _rounds.save_load(io, read, text); }

private:
  float _c0;  // mellowness
  opo_cmab::greediness _greediness;
  const opo_cmab::cost_unit& _costs;
  float _epsilon;
  opo_cmab::round_counter _rounds;

  // The lowest and the highest plausible cost of each action, given the past rounds.
  std::vector<float> _min_costs;
  std::vector<float> _max_costs;
  std::vector<float> _survivors;

  // for backing up cb example data when computing sensitivities
  std::vector<VW::action_scores> _ex_as;
  std::vector<std::vector<VW::cb_class>> _ex_costs;

  void compute_cost_ranges(learner& base, VW::multi_ex& examples);
};

void cb_explore_adf_adacb::compute_cost_ranges(learner& base, VW::multi_ex& examples)
{
  const size_t num_actions = examples[0]->pred.a_s.size();
  if (_rounds.value == 0)  // nothing seen, so nothing is implausible
  {
    _min_costs.assign(num_actions, 0.f);
    _max_costs.assign(num_actions, 1.f);
    return;
  }
  // threshold on empirical loss difference
  const float delta = _c0 * std::log(static_cast<float>(num_actions * _rounds.value));
  VW::confidence_sequence_utility::get_cost_ranges(
      delta, base, examples, /*min_only=*/false, 0.f, 1.f, _min_costs, _max_costs, _ex_as, _ex_costs);
}

void cb_explore_adf_adacb::predict(learner& base, VW::multi_ex& examples)
{
  multiline_learn_or_predict<false>(base, examples, examples[0]->ft_offset);
  auto& preds = examples[0]->pred.a_s;
  if (!_costs.known()) { return opo_cmab::make_uniform(preds); }
  compute_cost_ranges(base, examples);

  // An action survives unless another is better even in the worst case. An action with a NaN cost, which infinite
  // features can cause, survives too.
  const float min_max_cost = *std::min_element(_max_costs.begin(), _max_costs.end());
  const auto survives = [&](const VW::action_score& pred) { return !(_min_costs[pred.action] > min_max_cost); };

  _survivors.clear();
  for (const auto& pred : preds)
  {
    if (survives(pred)) { _survivors.push_back(pred.score); }
  }
  opo_cmab::inverse_gap_weighting(_survivors.begin(), _survivors.end(), _greediness.gamma(_rounds.value));
  auto probability = _survivors.begin();
  for (auto& pred : preds) { pred.score = survives(pred) ? *probability++ : 0.f; }
  VW::explore::enforce_minimum_probability(_epsilon, true, VW::begin_scores(preds), VW::end_scores(preds));
}

void cb_explore_adf_adacb::learn(learner& base, VW::multi_ex& examples)
{
  opo_cmab::learn_round(base, examples);
  ++_rounds.value;
}
}  // namespace

std::shared_ptr<learner> VW::reductions::cb_explore_adf_adacb_setup(VW::setup_base_i& stack_builder)
{
  bool adacb = false;
  float mellowness = 0.f;
  opo_cmab::greediness greediness;
  opo_cmab::explorer_options explorer;

  option_group_definition new_options("[Reduction] Contextual Bandit Exploration with ADF (AdaCB)");
  new_options.add(make_option("adacb", adacb).keep().necessary().help("AdaCB exploration"))
      .add(make_option("mellowness", mellowness)
               .keep()
               .default_value(0.001f)
               .help("Mellowness parameter c_0 for computing the plausible action set. A larger value keeps more "
                     "actions"));
  greediness.add_to(new_options);
  if (!explorer.add_and_parse(new_options, *stack_builder.get_options())) { return nullptr; }

  greediness.check();
  opo_cmab::require_nonnegative("--mellowness", mellowness);
  explorer.prepare("adacb", stack_builder,
      {{"mellowness", mellowness}, {"gamma_scale", greediness.scale}, {"gamma_exponent", greediness.exponent}},
      opo_cmab::takes_least_squares(*stack_builder.get_options(), *stack_builder.get_all_pointer()));
  auto base = require_multiline(stack_builder.setup_base_learner());
  return opo_cmab::make_explorer<cb_explore_adf_adacb>(stack_builder, cb_explore_adf_adacb_setup, base, mellowness,
      greediness, explorer.epsilon, opo_cmab::parts_of(stack_builder), *base)
      .build();
}
