#pragma once

#include <cstddef>
#include <limits>

namespace opo_cmab
{
/// The number of doubles in a vector (lanes.h). Arrays are padded to a multiple of it.
constexpr std::size_t LANES = 4;
/// The number of floats in a vector.
constexpr std::size_t FLOAT_LANES = 8;

/// An action is active if its log-weight, relative to the largest, is above this. exp(-37) = 8.5e-17 is less than half
/// the distance from 1 to the next double, so the probability of an inactive action changes no sum.
constexpr double NEGLIGIBLE = -37.;

/// Losses and bonuses above this count as this. The paper has both in [0, 1], and there this changes nothing. But a
/// regression can predict 100 for an action that it hardly knows; a bonus of at most 1 would never outweigh that.
constexpr double LARGEST_LOSS = 2.;

/// The loss of an action that the model does not know, as its absurd prediction says: in the middle, so that it is
/// tried again before actions that are known to be bad.
constexpr double UNKNOWN_LOSS = 0.5;

/// The loss of padding: it stays the largest whatever the bonus.
constexpr double WORST_LOSS = std::numeric_limits<double>::infinity();

inline std::size_t up_to_multiple(std::size_t count, std::size_t of) { return (count + of - 1) / of * of; }
inline std::size_t up_to_lanes(std::size_t count) { return up_to_multiple(count, LANES); }
}  // namespace opo_cmab
