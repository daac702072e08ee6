#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Four doubles at a time, as GCC and Clang know them: one register with AVX2, several on other machines, the same
// results on all. A condition picks lane by lane: a < b ? a : b. In memory they are doubles, of any alignment.
namespace opo_cmab
{
constexpr std::size_t LANES = 4;

using lanes = double __attribute__((vector_size(LANES * sizeof(double))));
using integer_lanes = int64_t __attribute__((vector_size(LANES * sizeof(int64_t))));

#define OPO_CMAB_INLINE inline __attribute__((always_inline))

OPO_CMAB_INLINE lanes load(const double* from)
{
  lanes result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

OPO_CMAB_INLINE void store(double* to, lanes x) { std::memcpy(to, &x, sizeof(x)); }

OPO_CMAB_INLINE lanes min(lanes a, lanes b) { return a < b ? a : b; }
OPO_CMAB_INLINE lanes max(lanes a, lanes b) { return a > b ? a : b; }

OPO_CMAB_INLINE double sum(lanes x) { return (x[0] + x[2]) + (x[1] + x[3]); }

OPO_CMAB_INLINE double largest(lanes x)
{
  const double a = x[0] > x[2] ? x[0] : x[2];
  const double b = x[1] > x[3] ? x[1] : x[3];
  return a > b ? a : b;
}

/// An action is active if the logarithm of its weight, relative to the largest, is above this. exp(-37) = 8.5e-17 is
/// less than half the distance from 1 to the next double: an action played with such a probability changes no sum by
/// it.
constexpr double NEGLIGIBLE = -37.;

inline std::size_t up_to_lanes(std::size_t count) { return (count + LANES - 1) / LANES * LANES; }

/// exp(x) for x in [-60, 0], to 1e-15 of its value: x = n log 2 + r, |r| <= log(2) / 2, and exp(r) by its Taylor
/// series.
OPO_CMAB_INLINE lanes exp_of_negative(lanes x)
{
  constexpr double SHIFT = 6755399441055744.;  // 1.5 * 2^52: adding it rounds to an integer, in the lowest bits
  const lanes shifted = x * 1.4426950408889634 + SHIFT;
  const lanes n = shifted - SHIFT;
  const lanes r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;  // log 2 in two parts
  const lanes r2 = r * r;
  const lanes r4 = r2 * r2;
  const lanes to_3 = (1. + r) + r2 * (1. / 2. + r * (1. / 6.));
  const lanes to_7 = (1. / 24. + r * (1. / 120.)) + r2 * (1. / 720. + r * (1. / 5040.));
  const lanes to_11 = (1. / 40320. + r * (1. / 362880.)) + r2 * (1. / 3628800. + r * (1. / 39916800.));
  const lanes exp_r = to_3 + r4 * (to_7 + r4 * (to_11 + r4 * (1. / 479001600.)));
  const integer_lanes power = (reinterpret_cast<integer_lanes>(shifted) + 1023) << 52;  // 2^n, from the lowest bits
  return exp_r * reinterpret_cast<lanes>(power);
}
}  // namespace opo_cmab
