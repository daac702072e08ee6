#include "reductions/cb_score_link.h"

#include "reductions/explorer_setup.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/loss_functions.h"
#include "vw/core/setup_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

/*
Under logistic loss the scores of cb_adf are margins, and explorers want costs. This reduction, directly above cb_adf,
maps the one to the other for whichever explorer sits above it:

  cost = min + (max - min) / (1 + exp(-margin)),   min and max the label range of the loss, --logistic_min/max

and passes sensitivities (RegCB, AdaCB) on by the chain rule.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace
{
class cb_score_link
{
public:
  cb_score_link(float min, float max) : _min(min), _range(max - min) {}

  float cost(float margin) const { return _min + _range / (1.f + std::exp(-margin)); }

  float margin(float cost) const
  {
    const float p = probability(cost);
    return std::log(p / (1.f - p));
  }

  /// d cost / d margin
  float slope(float cost) const
  {
    const float p = probability(cost);
    return _range * p * (1.f - p);
  }

private:
  float _min;
  float _range;

  float probability(float cost) const  // kept off 0 and 1, where the margin is infinite
  {
    return std::min(std::max((cost - _min) / _range, FLT_EPSILON), 1.f - FLT_EPSILON);
  }
};

template <bool is_learn>
void predict_or_learn(cb_score_link& link, learner& base, VW::multi_ex& examples)
{
  if (is_learn) { base.learn(examples); }
  else { base.predict(examples); }
  if (!is_learn || base.learn_returns_prediction)
  {
    for (auto& pred : examples[0]->pred.a_s) { pred.score = link.cost(pred.score); }
  }
}

float sensitivity(cb_score_link& link, learner& base, VW::example& ec)
{
  // The caller has put a cost there; the loss below reads a margin.
  const float cost = ec.pred.scalar;
  ec.pred.scalar = link.margin(cost);
  const float below = base.sensitivity(ec);
  ec.pred.scalar = cost;
  return below * link.slope(cost);
}
}  // namespace

std::shared_ptr<learner> VW::reductions::cb_score_link_setup(VW::setup_base_i& stack_builder)
{
  options_i& options = *stack_builder.get_options();
  VW::workspace& all = *stack_builder.get_all_pointer();
  std::string link;

  option_group_definition new_options("[Reduction] Contextual Bandit Score Link");
  new_options.add(make_option("cb_score_link", link)
                      .keep()
                      .necessary()
                      .one_of({"identity", "logistic"})
                      .help("Map the scores of cb_adf to costs. Under --loss_function logistic they are margins, and "
                            "the logistic link makes costs of them. Default: logistic for --opo_cmab, --fastcb "
                            "and --adacb under logistic loss, else identity"));
  if (!options.add_parse_and_check_necessary(new_options) || link == "identity") { return nullptr; }

  if (!options.was_supplied("cb_adf")) { THROW("--cb_score_link needs --cb_explore_adf or --cb_adf"); }
  if (all.loss_config.loss->get_type() != "logistic")
  {
    THROW("--cb_score_link logistic needs --loss_function logistic, not " << all.loss_config.loss->get_type());
  }
  if (options.was_supplied("link")) { THROW("--link and --cb_score_link logistic do the same: leave out --link"); }

  // VW's default label range is -1..1, which suits no costs. It has made the loss by now, so it is made again.
  const auto costs = opo_cmab::find_cost_range(options);
  opo_cmab::keep_option(options, "loss_function", "logistic");
  opo_cmab::keep_option(options, "logistic_min", fmt::format("{}", costs.min));
  opo_cmab::keep_option(options, "logistic_max", fmt::format("{}", costs.max));
  const float min = options.get_typed_option<float>("logistic_min").value();
  const float max = options.get_typed_option<float>("logistic_max").value();
  if (!(min < max)) { THROW("--logistic_min must be below --logistic_max: " << min << " and " << max); }
  all.loss_config.loss = VW::get_loss_function(all, "logistic", min, max);

  auto base = require_multiline(stack_builder.setup_base_learner());
  return make_reduction_learner(VW::make_unique<cb_score_link>(min, max), base, predict_or_learn<true>,
      predict_or_learn<false>, stack_builder.get_setupfn_name(cb_score_link_setup))
      .set_learn_returns_prediction(base->learn_returns_prediction)
      .set_sensitivity(sensitivity)
      .build();
}
