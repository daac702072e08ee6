#pragma once

#include "kernel/least_squares.h"
#include "vw/core/setup_base.h"
#include "vw/core/vw_fwd.h"

#include <cstdint>
#include <memory>

namespace VW
{
namespace reductions
{
std::shared_ptr<VW::LEARNER::learner> least_squares_setup(VW::setup_base_i& stack_builder);
}  // namespace reductions
}  // namespace VW
