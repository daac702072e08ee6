#pragma once

#include "vw/core/merge.h"
#include "vw/core/vw.h"

namespace VW
{
/// VW::initialize with our reductions in the stack.
std::unique_ptr<VW::workspace> initialize_with_opo_cmab(std::unique_ptr<config::options_i> options,
    std::unique_ptr<VW::io::reader> model_override_reader = nullptr, driver_output_func_t driver_output_func = nullptr,
    void* driver_output_func_context = nullptr, VW::io::logger* custom_logger = nullptr);

/// VW::merge_models, which knows only the stock reductions: models that use ours are refused.
std::unique_ptr<VW::workspace> merge_models_without_opo_cmab(const VW::workspace* base_workspace,
    const std::vector<const VW::workspace*>& workspaces_to_merge, VW::io::logger* logger = nullptr);
}  // namespace VW
