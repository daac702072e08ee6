#pragma once

#include "kernel/width.h"

#include <cstddef>

// The covariance P of a few weights in least squares, as its factors: P = L D L', L with ones on its diagonal. Updated
// in the factors (Bierman, "Factorization Methods for Discrete Sequential Estimation", 1977), P stays symmetric and
// positive by construction, in floats.
//
// In memory: the diagonal of D, then L by columns. Column j has the rows from the first of j's tile of eight on, with
// zeros above the diagonal, so that all loops take whole vectors. `rows` is a multiple of eight.
namespace opo_cmab
{
/// The number of floats.
constexpr std::size_t covariance_size(std::size_t rows)
{
  return rows + FLOAT_LANES * FLOAT_LANES * (rows / FLOAT_LANES) * (rows / FLOAT_LANES + 1) / 2;
}

/// Makes zeros a covariance with more rows than the one that it copies; new weights are independent of all others, and
/// their variance is 0.
void copy_covariance(const float* from, std::size_t from_rows, float* to, std::size_t rows);

/// \param z, f up to a multiple of eight; 0 from end on
/// \param f becomes L'z
/// \return z'Pz
double project(const float* covariance, std::size_t rows, const float* z, std::size_t end, float* f);

/// One observation in direction z: P becomes P - Pz (Pz)' / (noise + z'Pz).
/// \param f L'z, 0 from end on
/// \param noise the variance of the observation: 1 / its weight
/// \param along zeros; becomes Pz, with P as before
void observe(float* covariance, std::size_t rows, const float* f, std::size_t end, float noise, float* along);

/// A weight gets another unit: its row and column of P are multiplied by a factor.
void scale(float* covariance, std::size_t rows, std::size_t row, float factor);

/// L'z for the direction of one weight alone, up to that.
void copy_row(const float* covariance, std::size_t rows, std::size_t row, float* f);
}  // namespace opo_cmab
