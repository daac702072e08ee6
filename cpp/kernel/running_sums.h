#pragma once

#include <cstddef>

namespace opo_cmab
{
/// Turns the changes of actions from predictor to predictor into predictions: adds them up, predictor by predictor.
/// \param changes of each action
/// \param groups of LANES actions, 1 or 2
/// \param sums of each action so far; set to those after the last change
/// \param values output, of each predictor, `width` apart
void running_sums(const double* const* changes, std::size_t groups, std::size_t count, double* sums, double* values,
    std::size_t width);
}  // namespace opo_cmab
