#include "reductions/cb_explore_adf_fastcb.h"

#include "kernel/inverse_gap_weighting.h"
#include "reductions/cb_cost_unit.h"
#include "reductions/explorer_setup.h"
#include "vw/config/options.h"
#include "vw/core/action_score.h"
#include "vw/core/learner.h"
#include "vw/core/setup_base.h"
#include "vw/explore/explore.h"

#include <algorithm>

/*
This file implements FastCB (Foster and Krishnamurthy (2021), https://arxiv.org/abs/2107.02237), the first-order variant
of SquareCB, with the VW learner as the regression oracle. With losses f in [0, 1] and f* the lowest of them,

  p(a) = f* / (|A| f* + gamma (f(a) - f*)) for all actions but the best, which gets the rest:

inverse gap weighting with gamma / f*. It is greedier if the lowest loss is smaller.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace
{
constexpr float LOWEST_LOSS = 1e-6f;

class cb_explore_adf_fastcb
{
public:
  cb_explore_adf_fastcb(
      const opo_cmab::greediness& greediness, float epsilon, const opo_cmab::parts& parts, learner& base)
      : _greediness(greediness)
      , _costs(*parts.costs)
      , _epsilon(epsilon)
      , _rounds({"fastcb", &base, parts.saved_state}, "fastcb_rounds")
  {
  }

  // Should be called through cb_explore_adf_base for pre/post-processing
  void predict(learner& base, VW::multi_ex& examples);
  void learn(learner& base, VW::multi_ex& examples);
  void save_load(VW::io_buf& io, bool read, bool text) { _rounds.save_load(io, read, text); }

private:
  opo_cmab::greediness _greediness;
  const opo_cmab::cost_unit& _costs;
  float _epsilon;
  opo_cmab::round_counter _rounds;
};

void cb_explore_adf_fastcb::predict(learner& base, VW::multi_ex& examples)
{
  multiline_learn_or_predict<false>(base, examples, examples[0]->ft_offset);
  auto& preds = examples[0]->pred.a_s;
  if (!_costs.known()) { return opo_cmab::make_uniform(preds); }
  const auto first = VW::begin_scores(preds);
  const auto last = VW::end_scores(preds);

  std::for_each(first, last, [](float& loss) { loss = std::max(loss, LOWEST_LOSS); });
  const double gamma = _greediness.gamma(_rounds.value) / *std::min_element(first, last);
  opo_cmab::inverse_gap_weighting(first, last, gamma);
  VW::explore::enforce_minimum_probability(_epsilon, true, first, last);
}

void cb_explore_adf_fastcb::learn(learner& base, VW::multi_ex& examples)
{
  opo_cmab::learn_round(base, examples);
  ++_rounds.value;
}
}  // namespace

std::shared_ptr<learner> VW::reductions::cb_explore_adf_fastcb_setup(VW::setup_base_i& stack_builder)
{
  bool fastcb = false;
  opo_cmab::greediness greediness;
  opo_cmab::explorer_options explorer;

  option_group_definition new_options("[Reduction] Contextual Bandit Exploration with ADF (FastCB)");
  new_options.add(make_option("fastcb", fastcb).keep().necessary().help("FastCB exploration"));
  greediness.add_to(new_options);
  if (!explorer.add_and_parse(new_options, *stack_builder.get_options())) { return nullptr; }

  greediness.check();
  explorer.prepare("fastcb", stack_builder,
      {{"gamma_scale", greediness.scale}, {"gamma_exponent", greediness.exponent}},
      opo_cmab::takes_least_squares(*stack_builder.get_options(), *stack_builder.get_all_pointer()));
  auto base = require_multiline(stack_builder.setup_base_learner());
  return opo_cmab::make_explorer<cb_explore_adf_fastcb>(stack_builder, cb_explore_adf_fastcb_setup, base, greediness,
      explorer.epsilon, opo_cmab::parts_of(stack_builder), *base)
      .build();
}
