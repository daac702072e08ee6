#pragma once

#include <cstddef>

namespace opo_cmab
{
/// Doubles that are computed at once (lanes.h). Arrays go up to a multiple of it.
constexpr std::size_t LANES = 4;

/// An action is active if the logarithm of its weight, relative to the largest, is above this. exp(-37) = 8.5e-17 is
/// less than half the distance from 1 to the next double: an action played with such a probability changes no sum by
/// it.
constexpr double NEGLIGIBLE = -37.;

/// A loss that is the largest there is whatever the bonus.
constexpr double WORST_LOSS = 2.;

inline std::size_t up_to_lanes(std::size_t count) { return (count + LANES - 1) / LANES * LANES; }
}  // namespace opo_cmab
