#include "engine/initialize.h"

#include "reductions/cb_cost_unit.h"
#include "reductions/cb_explore_adf_adacb.h"
#include "reductions/cb_explore_adf_fastcb.h"
#include "reductions/cb_explore_adf_opo_cmab.h"
#include "reductions/cb_shared_features.h"
#include "reductions/least_squares.h"
#include "reductions/opo_tap.h"
#include "reductions/parts.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/memory.h"
#include "vw/core/reduction_stack.h"
#include "vw/core/reductions/cb/cb_adf.h"
#include "vw/core/reductions/cb/cb_explore_adf_greedy.h"
#include "vw/core/reductions/cb/cb_explore_adf_squarecb.h"
#include "vw/core/reductions/generate_interactions.h"

#include <algorithm>
#include <string>
#include <vector>

namespace
{
const std::vector<std::string> OUR_EXPLORERS = {"adacb", "fastcb", "opo_cmab"};

// cb_explore_adf_greedy switches itself on unless one of these is given.
const std::vector<std::string> STOCK_EXPLORERS = {
    "bag", "cover", "first", "graph_feedback", "regcb", "regcbopt", "rnd", "softmax", "squarecb", "synthcover"};

std::vector<std::string> supplied(const VW::config::options_i& options, const std::vector<std::string>& flags)
{
  std::vector<std::string> result;
  std::copy_if(flags.begin(), flags.end(), std::back_inserter(result),
      [&options](const std::string& flag) { return options.was_supplied(flag); });
  return result;
}

/// VW's reduction stack with ours inserted.
class stack_builder : public VW::default_reduction_stack_setup, public opo_cmab::parts_owner
{
public:
  stack_builder()
  {
    using namespace VW::reductions;
    _reduction_stack.emplace(find(generate_interactions_setup), "least_squares", least_squares_setup);  // below
    _reduction_stack.emplace(find(generate_interactions_setup), "opo_tap", opo_tap_setup);              // below
    _reduction_stack.emplace(
        find(generate_interactions_setup), "cb_shared_features_below", cb_shared_features_below_setup);
    insert_above(cb_adf_setup, "cb_shared_features", cb_shared_features_setup);
    insert_above(cb_shared_features_setup, "cb_cost_unit", cb_cost_unit_setup);
    insert_above(cb_explore_adf_squarecb_setup, "cb_explore_adf_fastcb", cb_explore_adf_fastcb_setup);
    insert_above(cb_explore_adf_squarecb_setup, "cb_explore_adf_adacb", cb_explore_adf_adacb_setup);
    insert_above(cb_explore_adf_squarecb_setup, "cb_explore_adf_opo_cmab", cb_explore_adf_opo_cmab_setup);
  }

  // By now the options of a loaded model have been added to those of the command line.
  void delayed_state_attach(VW::workspace& all, VW::config::options_i& options) override
  {
    auto explorers = supplied(options, OUR_EXPLORERS);
    if (!explorers.empty())
    {
      for (auto& stock : supplied(options, STOCK_EXPLORERS)) { explorers.push_back(stock); }
      if (explorers.size() > 1)
      {
        const char* with_model = options.was_supplied("initial_regressor")
            ? ". To start from a model of one of VW's explorers, convert it first: python -m opo_cmab.adopt OLD NEW "
              "(not possible for --bag, --cover, --synthcover and --rnd)"
            : "";
        THROW("--" << explorers[0] << " and --" << explorers[1] << " are both explorers: give only one of them"
                   << with_model);
      }
      _reduction_stack.erase(find(VW::reductions::cb_explore_adf_greedy_setup));
    }
    if (supplied(options, {"cbzo", "least_squares"}).size() > 1)  // it sits above ours, which would not be asked
    {
      THROW("--cbzo and --least_squares are both learners: give only one of them");
    }
    VW::default_reduction_stack_setup::delayed_state_attach(all, options);
  }

  opo_cmab::parts& get_parts() override { return _parts; }

private:
  opo_cmab::parts _parts;

  // Setups are taken from the back, so later entries sit higher in the stack.
  void insert_above(VW::reduction_setup_fn below, const std::string& name, VW::reduction_setup_fn setup)
  {
    _reduction_stack.emplace(find(below) + 1, name, setup);
  }

  decltype(_reduction_stack)::iterator find(VW::reduction_setup_fn setup)
  {
    const auto found = std::find_if(_reduction_stack.begin(), _reduction_stack.end(),
        [setup](const std::tuple<std::string, VW::reduction_setup_fn>& entry) { return std::get<1>(entry) == setup; });
    if (found == _reduction_stack.end())
    {
      THROW("this VW lacks a reduction that ours are placed next to: see docs/upgrading-vw.md");
    }
    return found;
  }
};
}  // namespace

std::unique_ptr<VW::workspace> VW::initialize_with_opo_cmab(std::unique_ptr<config::options_i> options,
    std::unique_ptr<VW::io::reader> model_override_reader, driver_output_func_t driver_output_func,
    void* driver_output_func_context, VW::io::logger* custom_logger)
{
  const bool has_model = !supplied(*options, {"initial_regressor", "i"}).empty();
  try
  {
    return VW::initialize_experimental(std::move(options), std::move(model_override_reader), driver_output_func,
        driver_output_func_context, custom_logger, VW::make_unique<stack_builder>());
  }
  catch (const VW::vw_exception& error)
  {
    const std::string message = error.what();
    if (!has_model || message.rfind("Disagreeing option values", 0) != 0) { throw; }
    THROW(message << ". The second is the model's (-i), which keeps it: leave out the flag, or train a new model");
  }
}

std::unique_ptr<VW::workspace> VW::merge_models_without_opo_cmab(const VW::workspace* base_workspace,
    const std::vector<const VW::workspace*>& workspaces_to_merge, VW::io::logger* logger)
{
  auto ours = OUR_EXPLORERS;
  ours.insert(ours.end(), {"cb_cost_unit", "least_squares"});
  for (const auto* workspace : workspaces_to_merge)
  {
    const auto used = supplied(*workspace->options, ours);
    if (!used.empty()) { THROW("merging models that use --" << used[0] << " is not supported: train one model"); }
  }
  return VW::merge_models(base_workspace, workspaces_to_merge, logger);
}
