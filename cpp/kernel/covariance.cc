#include "kernel/covariance.h"

#include "kernel/lanes.h"
#include "kernel/vectorized.h"

#include <algorithm>

namespace opo_cmab
{
namespace
{
std::size_t first_row(std::size_t column) { return column / FLOAT_LANES * FLOAT_LANES; }

/// Where row 0 of a column would be.
std::size_t start(std::size_t rows, std::size_t column)
{
  const std::size_t first = first_row(column);
  const std::size_t tiles_before = covariance_size(rows) - (covariance_size(rows - first) - (rows - first));
  return tiles_before + (column - first) * (rows - first) - first;
}
}  // namespace

void copy_covariance(const float* from, std::size_t from_rows, float* to, std::size_t rows)
{
  std::copy_n(from, from_rows, to);
  for (std::size_t j = 0; j < rows; ++j)
  {
    if (j >= from_rows) { to[start(rows, j) + j] = 1.f; }
    else
    {
      std::copy_n(
          from + start(from_rows, j) + first_row(j), from_rows - first_row(j), to + start(rows, j) + first_row(j));
    }
  }
}

OPO_CMAB_VECTORIZED double project(const float* covariance, std::size_t rows, const float* z, std::size_t end, float* f)
{
  const float* column = covariance + rows;
  double variance = 0.;
  for (std::size_t first = 0; first < end; first += FLOAT_LANES)
  {
    for (std::size_t j = first; j < std::min(end, first + FLOAT_LANES); ++j, column += rows - first)
    {
      float_lanes products = load(column) * load(z + first);
      for (std::size_t i = first + FLOAT_LANES; i < end; i += FLOAT_LANES)
      {
        products += load(column + (i - first)) * load(z + i);
      }
      f[j] = sums(products)[0];
      variance += static_cast<double>(covariance[j] * f[j]) * f[j];
    }
  }
  return variance;
}

OPO_CMAB_VECTORIZED void observe(
    float* covariance, std::size_t rows, const float* f, std::size_t end, float noise, float* along)
{
  if (end == 0) { return; }
  float* column = covariance + start(rows, end - 1) + rows;  // its end
  float variance = noise;                                    // of the observation, as far as the columns so far tell
  float inverse = 1.f / variance;
  for (std::size_t j = end; j-- > 0;)  // Bierman's update, from the last column to the first
  {
    const std::size_t first = j / FLOAT_LANES * FLOAT_LANES;
    column -= rows - first;
    if (f[j] == 0.f) { continue; }
    const float v = covariance[j] * f[j];
    const float share = -f[j] * inverse;
    const float before = variance;
    variance += v * f[j];
    inverse = 1.f / variance;
    covariance[j] *= before * inverse;
    for (std::size_t i = first; i < rows; i += FLOAT_LANES)
    {
      const float_lanes old = load(column + (i - first));
      const float_lanes sum = load(along + i);
      store(column + (i - first), old + share * sum);
      store(along + i, sum + v * old);
    }
  }
}

void scale(float* covariance, std::size_t rows, std::size_t row, float factor)
{
  for (std::size_t j = 0; j < row; ++j) { covariance[start(rows, j) + row] *= factor; }
  for (std::size_t i = row + 1; i < rows; ++i) { covariance[start(rows, row) + i] /= factor; }
  covariance[row] *= factor * factor;
}

void copy_row(const float* covariance, std::size_t rows, std::size_t row, float* f)
{
  for (std::size_t j = 0; j <= row; ++j) { f[j] = covariance[start(rows, j) + row]; }
}
}  // namespace opo_cmab
