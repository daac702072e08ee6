#pragma once

#include <cstddef>

namespace opo_cmab
{
/// The number of doubles in a vector (lanes.h). Arrays are padded to a multiple of it.
constexpr std::size_t LANES = 4;

/// An action is active if its log-weight, relative to the largest, is above this. exp(-37) = 8.5e-17 is less than half
/// the distance from 1 to the next double, so the probability of an inactive action changes no sum.
constexpr double NEGLIGIBLE = -37.;

/// A loss that stays the largest whatever the bonus.
constexpr double WORST_LOSS = 2.;

inline std::size_t up_to_lanes(std::size_t count) { return (count + LANES - 1) / LANES * LANES; }
}  // namespace opo_cmab
