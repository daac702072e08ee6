#include "kernel/covariance.h"

#include "kernel/lanes.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace opo_cmab
{
namespace
{
std::size_t size_for(std::size_t capacity)
{
  const std::size_t tiles = capacity / FLOAT_LANES;
  return FLOAT_LANES * FLOAT_LANES * tiles * (tiles + 1) / 2;
}

/// f[j] = the product of column j and z.
OPO_CMAB_VECTORIZED void project_on(
    const float* columns, std::size_t capacity, const float* z, std::size_t end, float* f)
{
  const std::size_t rows = up_to_multiple(end, FLOAT_LANES);
  for (std::size_t first = 0; first < rows; first += FLOAT_LANES)
  {
    for (std::size_t j = first; j < std::min(end, first + FLOAT_LANES); ++j, columns += capacity - first)
    {
      float_lanes products = load(columns) * load(z + first);
      for (std::size_t i = first + FLOAT_LANES; i < rows; i += FLOAT_LANES)
      {
        products += load(columns + (i - first)) * load(z + i);
      }
      f[j] = sums(products)[0];
    }
  }
}

/// Bierman's update, from the last column to the first. \param columns the end of column `end - 1`
OPO_CMAB_VECTORIZED void observe_in(
    const float* f, std::size_t end, std::size_t capacity, double noise, float* columns, float* d, float* along)
{
  double variance = noise;
  for (std::size_t j = end; j-- > 0;)
  {
    const std::size_t first = j / FLOAT_LANES * FLOAT_LANES;
    columns -= capacity - first;
    if (f[j] == 0.f) { continue; }
    const float v = d[j] * f[j];
    const double before = variance;
    variance += static_cast<double>(f[j]) * v;
    d[j] = static_cast<float>(d[j] * (before / variance));
    const float p = static_cast<float>(-f[j] / before);
    for (std::size_t i = first; i < capacity; i += FLOAT_LANES)
    {
      const float_lanes column = load(columns + (i - first));
      const float_lanes sum = load(along + i);
      store(columns + (i - first), column + p * sum);
      store(along + i, sum + v * column);
    }
  }
}
}  // namespace

std::size_t triangle::start(std::size_t column) const
{
  const std::size_t first = first_row(column);
  const std::size_t before = size_for(_capacity) - size_for(_capacity - first);  // the tiles on its left
  return before + (column - first) * (_capacity - first) - first;
}

void triangle::reserve(std::size_t weights)
{
  if (weights <= _capacity) { return; }
  triangle larger;
  larger._capacity = up_to_multiple(weights, FLOAT_LANES);
  larger._values.resize(size_for(larger._capacity));
  for (std::size_t j = 0; j < larger._capacity; ++j)
  {
    const std::size_t to = larger.start(j);
    if (j >= _capacity) { larger._values[to + j] = 1.f; }
    else
    {
      const std::size_t from = start(j);
      std::copy(_values.begin() + static_cast<std::ptrdiff_t>(from + first_row(j)),
          _values.begin() + static_cast<std::ptrdiff_t>(from + _capacity),
          larger._values.begin() + static_cast<std::ptrdiff_t>(to + first_row(j)));
    }
  }
  *this = std::move(larger);
}

void triangle::project(const float* z, std::size_t end, float* f) const
{
  project_on(_values.data(), _capacity, z, end, f);
}

void triangle::observe(float* d, const float* f, std::size_t end, double noise, float* along)
{
  if (end == 0) { return; }
  observe_in(f, end, _capacity, noise, &_values[start(end - 1)] + _capacity, d, along);
}

void triangle::scale(float* d, std::size_t place, float factor)
{
  for (std::size_t j = 0; j < place; ++j) { _values[start(j) + place] *= factor; }
  for (std::size_t i = place + 1; i < _capacity; ++i) { _values[start(place) + i] /= factor; }
  d[place] *= factor * factor;
}

void triangle::row(std::size_t place, float* f) const
{
  for (std::size_t j = 0; j <= place; ++j) { f[j] = _values[start(j) + place]; }
}

bool triangle::restore(std::size_t weights, std::vector<float> values)
{
  const std::size_t capacity = up_to_multiple(weights, FLOAT_LANES);
  const bool good = values.size() == size_for(capacity) &&
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  if (!good) { return false; }
  _capacity = capacity;
  _values = std::move(values);
  return true;
}
}  // namespace opo_cmab
