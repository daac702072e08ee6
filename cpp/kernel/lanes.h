#pragma once

#include "kernel/width.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

// Vectors of four doubles or eight floats, an extension of GCC and Clang: one register with AVX2, several on other
// machines, the same results on all. A condition selects lane by lane: a < b ? a : b. In memory they have any
// alignment.
namespace opo_cmab
{
using lanes = double __attribute__((vector_size(LANES * sizeof(double))));
using integer_lanes = int64_t __attribute__((vector_size(LANES * sizeof(int64_t))));
using float_lanes = float __attribute__((vector_size(FLOAT_LANES * sizeof(float))));
using short_integer_lanes = int32_t __attribute__((vector_size(FLOAT_LANES * sizeof(int32_t))));

#define OPO_CMAB_INLINE inline __attribute__((always_inline))

OPO_CMAB_INLINE lanes load(const double* from)
{
  lanes result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

OPO_CMAB_INLINE float_lanes load(const float* from)
{
  float_lanes result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

OPO_CMAB_INLINE void store(double* to, lanes x) { std::memcpy(to, &x, sizeof(x)); }
OPO_CMAB_INLINE void store(float* to, float_lanes x) { std::memcpy(to, &x, sizeof(x)); }

/// Numbers whose values the compiler must not see: from min and max with a constant GCC makes two instructions, not
/// one.
extern const float HIDDEN_ZERO;
extern const float HIDDEN_ONE;
extern const float HIDDEN_LEAST_EXPONENT;
extern const float HIDDEN_LEAST_LOG_SHARE;
extern const float HIDDEN_LEAST_MARGIN;

template <typename Lanes>
OPO_CMAB_INLINE Lanes min(Lanes a, Lanes b)
{
  return a < b ? a : b;
}

template <typename Lanes>
OPO_CMAB_INLINE Lanes max(Lanes a, Lanes b)
{
  return a > b ? a : b;
}

OPO_CMAB_INLINE double sum(lanes x) { return (x[0] + x[2]) + (x[1] + x[3]); }

#ifdef __clang__
#define OPO_CMAB_SHUFFLE(a, b, integers, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define OPO_CMAB_SHUFFLE(a, b, integers, ...) __builtin_shuffle(a, b, integers{__VA_ARGS__})
#endif

/// Rows become columns.
OPO_CMAB_INLINE void transpose(lanes (&rows)[LANES])
{
  const lanes even_01 = OPO_CMAB_SHUFFLE(rows[0], rows[1], integer_lanes, 0, 4, 2, 6);
  const lanes odd_01 = OPO_CMAB_SHUFFLE(rows[0], rows[1], integer_lanes, 1, 5, 3, 7);
  const lanes even_23 = OPO_CMAB_SHUFFLE(rows[2], rows[3], integer_lanes, 0, 4, 2, 6);
  const lanes odd_23 = OPO_CMAB_SHUFFLE(rows[2], rows[3], integer_lanes, 1, 5, 3, 7);
  rows[0] = OPO_CMAB_SHUFFLE(even_01, even_23, integer_lanes, 0, 1, 4, 5);
  rows[1] = OPO_CMAB_SHUFFLE(odd_01, odd_23, integer_lanes, 0, 1, 4, 5);
  rows[2] = OPO_CMAB_SHUFFLE(even_01, even_23, integer_lanes, 2, 3, 6, 7);
  rows[3] = OPO_CMAB_SHUFFLE(odd_01, odd_23, integer_lanes, 2, 3, 6, 7);
}

/// Combines all lanes by an operation on two, such as +. \return the result, in every lane
template <typename Operation>
OPO_CMAB_INLINE lanes combined(lanes x, Operation operation)
{
  x = operation(x, OPO_CMAB_SHUFFLE(x, x, integer_lanes, 2, 3, 0, 1));
  return operation(x, OPO_CMAB_SHUFFLE(x, x, integer_lanes, 1, 0, 3, 2));
}

template <typename Operation>
OPO_CMAB_INLINE float_lanes combined(float_lanes x, Operation operation)
{
  x = operation(x, OPO_CMAB_SHUFFLE(x, x, short_integer_lanes, 4, 5, 6, 7, 0, 1, 2, 3));
  x = operation(x, OPO_CMAB_SHUFFLE(x, x, short_integer_lanes, 2, 3, 0, 1, 6, 7, 4, 5));
  return operation(x, OPO_CMAB_SHUFFLE(x, x, short_integer_lanes, 1, 0, 3, 2, 5, 4, 7, 6));
}

template <typename Lanes>
OPO_CMAB_INLINE Lanes sums(Lanes x)
{
  return combined(
      x, [](Lanes a, Lanes b) __attribute__((always_inline)) { return a + b; });
}

template <typename Lanes>
OPO_CMAB_INLINE Lanes maxima(Lanes x)
{
  return combined(
      x, [](Lanes a, Lanes b) __attribute__((always_inline)) { return max(a, b); });
}

constexpr double LEAST_LOG_SHARE = -60.;   // of the shares of plays.h
constexpr double LEAST_EXPONENT = -1000.;  // its power of 2 is not yet denormal
constexpr double LOG2_E = 1.4426950408889634;

/// 2^x for |x| up to -LEAST_EXPONENT, with a relative error of 1e-15: x = n + r, |r| <= 1/2, and 2^r by the polynomial
/// that meets it at 0 and at the zeros of a Chebyshev polynomial.
OPO_CMAB_INLINE lanes exp2_of(lanes x)
{
  constexpr double SHIFT = 6755399441055744.;  // 1.5 * 2^52: adding it rounds to an integer, in the lowest bits
  const lanes shifted = x + SHIFT;
  const lanes r = x - (shifted - SHIFT);
  const lanes r2 = r * r;
  const lanes r4 = r2 * r2;
  const lanes to_3 = (1. + r * 0.6931471805599462) + r2 * (0.24022650695910075 + r * 0.05550410866465154);
  const lanes to_7 =
      (0.009618129107618658 + r * 0.001333355820082724) + r2 * (0.0001540353042479538 + r * 1.52526729004753e-05);
  const lanes to_10 = (1.3215451619146607e-06 + r * 1.0205910984889862e-07) + r2 * 7.070981083365768e-09;
  const lanes exp2_r = to_3 + r4 * (to_7 + r4 * to_10);
  // Times 2^n: n, which is in the lowest bits, is added to the exponent.
  return reinterpret_cast<lanes>(
      reinterpret_cast<integer_lanes>(exp2_r) + (reinterpret_cast<integer_lanes>(shifted) << 52));
}

/// exp(x) for x in [-60, 60], with a relative error of 1e-14.
OPO_CMAB_INLINE lanes exp_of(lanes x) { return exp2_of(x * LOG2_E); }

/// The same for x in [-60, 0], with a relative error of 2e-7.
OPO_CMAB_INLINE float_lanes exp_of(float_lanes x)
{
  constexpr float SHIFT = 12582912.f;  // 1.5 * 2^23, as above
  const float_lanes shifted = x * 1.44269504f + SHIFT;
  const float_lanes n = shifted - SHIFT;
  const float_lanes r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // log 2 in two parts
  const float_lanes r2 = r * r;
  const float_lanes exp_r = ((1.f + r) + r2 * (1.f / 2.f + r * (1.f / 6.f))) +
      (r2 * r2) * ((1.f / 24.f + r * (1.f / 120.f)) + r2 * (1.f / 720.f));
  return reinterpret_cast<float_lanes>(
      reinterpret_cast<short_integer_lanes>(exp_r) + (reinterpret_cast<short_integer_lanes>(shifted) << 23));
}

/// log(x) for x > 0, not denormal, to 1e-14: x = 2^n m, m near 1, and log(m) = 2 artanh((m - 1) / (m + 1)).
OPO_CMAB_INLINE lanes log_of(lanes x)
{
  constexpr double SHIFT = 6755399441055744.;  // as above
  constexpr int64_t SHIFT_BITS = 0x4338000000000000;
  const integer_lanes bits = reinterpret_cast<integer_lanes>(x);
  const integer_lanes exponent = (bits >> 52) - 1023 + SHIFT_BITS;
  const integer_lanes mantissa = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
  const lanes m1 = reinterpret_cast<lanes>(mantissa);
  const lanes n1 = reinterpret_cast<lanes>(exponent) - SHIFT;
  const lanes m = m1 > 1.4142135623730951 ? 0.5 * m1 : m1;
  const lanes n = m1 > 1.4142135623730951 ? n1 + 1. : n1;
  const lanes s = (m - 1.) / (m + 1.);
  const lanes s2 = s * s;
  const lanes s4 = s2 * s2;
  const lanes low = (1. + s2 * (1. / 3.)) + s4 * (1. / 5. + s2 * (1. / 7.));
  const lanes high = (1. / 9. + s2 * (1. / 11.)) + s4 * (1. / 13. + s2 * (1. / 15.));
  return n * 0.6931471805599453 + 2. * s * (low + s4 * s4 * high);
}

/// The same, to 2e-7 of the larger of |log(x)| and 1.
OPO_CMAB_INLINE float_lanes log_of(float_lanes x)
{
  const short_integer_lanes bits = reinterpret_cast<short_integer_lanes>(x);
  const float_lanes n1 = __builtin_convertvector((bits >> 23) - 127, float_lanes);
  const float_lanes m1 = reinterpret_cast<float_lanes>((bits & 0x007fffff) | 0x3f800000);
  const float_lanes m = m1 > 1.41421356f ? 0.5f * m1 : m1;
  const float_lanes n = m1 > 1.41421356f ? n1 + 1.f : n1;
  const float_lanes s = (m - 1.f) / (m + 1.f);
  const float_lanes s2 = s * s;
  const float_lanes series = (1.f + s2 * (1.f / 3.f)) + (s2 * s2) * (1.f / 5.f + s2 * (1.f / 7.f));
  return n * 0.693147181f + 2.f * s * series;
}
}  // namespace opo_cmab
