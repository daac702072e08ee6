#pragma once

#include "kernel/width.h"

#include <cstddef>
#include <vector>

// The covariance P of a few weights in least squares, as its factors: P = L D L', L with ones on its diagonal. Updated
// in the factors (Bierman, "Factorization Methods for Discrete Sequential Estimation", 1977), P stays symmetric and
// positive by construction, in floats. D is kept by the caller, who has a number for each weight anyway.
namespace opo_cmab
{
/// L by columns. Column j has the rows from the first of j's tile of eight on, with zeros above the diagonal, so that
/// all loops take whole vectors.
class triangle
{
public:
  std::size_t capacity() const { return _capacity; }
  /// Makes room for this many weights; those that are new are independent of all others.
  void reserve(std::size_t weights);

  /// f = L'z. \param end z is 0 from here on; so is f. z has zeros up to a multiple of eight
  void project(const float* z, std::size_t end, float* f) const;

  /// One observation in direction z: P becomes P - Pz (Pz)' / (noise + z'Pz).
  /// \param d the diagonal of D
  /// \param f L'z, up to end
  /// \param noise the variance of the observation: 1 / its weight
  /// \param along zeros, capacity() of them; becomes Pz, with P as before
  void observe(float* d, const float* f, std::size_t end, double noise, float* along);

  /// The weight at this place gets another unit: its row and column of P are multiplied by a factor.
  void scale(float* d, std::size_t place, float factor);

  /// Row `place` of L, up to its diagonal: f for the direction of that weight alone.
  void row(std::size_t place, float* f) const;

  const std::vector<float>& values() const { return _values; }
  /// \return false if these are not the values of a triangle for so many weights
  bool restore(std::size_t weights, std::vector<float> values);

private:
  std::size_t _capacity = 0;  // a multiple of eight
  std::vector<float> _values;

  static std::size_t first_row(std::size_t column) { return column / FLOAT_LANES * FLOAT_LANES; }
  /// Where the column's row 0 would be.
  std::size_t start(std::size_t column) const;
};
}  // namespace opo_cmab
