#pragma once

#include "kernel/lanes.h"
#include "kernel/optimistic_loss.h"

#include <cmath>
#include <cstddef>

// The arrays of a recursion (recursion.h), accessed by lanes, and its step.
namespace opo_cmab
{
/// An array in memory.
class in_memory
{
public:
  explicit in_memory(double* values) : _values(values) {}
  OPO_CMAB_INLINE lanes get(std::size_t i) const { return load(_values + i * LANES); }
  OPO_CMAB_INLINE void set(std::size_t i, lanes x) { store(_values + i * LANES, x); }
  OPO_CMAB_INLINE void write(double*) const {}

private:
  double* _values;
};

/// A copy in registers. SIZE: the number of vectors.
template <std::size_t SIZE>
class in_registers
{
public:
  OPO_CMAB_INLINE explicit in_registers(const double* values)
  {
    for (std::size_t i = 0; i < SIZE; ++i) { _values[i] = load(values + i * LANES); }
  }
  OPO_CMAB_INLINE lanes get(std::size_t i) const { return _values[i]; }
  OPO_CMAB_INLINE void set(std::size_t i, lanes x) { _values[i] = x; }
  OPO_CMAB_INLINE void write(double* values) const
  {
    for (std::size_t i = 0; i < SIZE; ++i) { store(values + i * LANES, _values[i]); }
  }

private:
  lanes _values[SIZE];
};

/// An eta above this is large: 2^-eta may underflow.
constexpr double LARGE_ETA = 900.;

/// One exact round of the recursion, with logarithms to base 2. Its probabilities come from log-weights relative to the
/// largest of the round before, so that nothing waits for the largest of this one. That is safe: the largest falls by
/// at most eta.
/// \param real 1 for actions, 0 for padding
/// \param size of the arrays, in lanes
/// \param eta times log2(e)
/// \param drop of the largest log-weight in the round before, in every lane; set to that in this round
template <bool ETA_IS_LARGE, typename Array>
OPO_CMAB_INLINE void step_round(Array& pi, Array& log_weights, Array& counts, const Array& real, std::size_t size,
    const double* losses, double half_beta, double decay, double eta, lanes& drop)
{
  const lanes none = {};
  lanes top = none - HUGE_VAL;
  for (std::size_t i = 0; i < size; ++i)
  {
    const lanes count = counts.get(i);
    const lanes loss = optimistic_loss(load(losses + i * LANES), half_beta / count);
    const lanes w = decay * (log_weights.get(i) + drop) - eta * loss;
    log_weights.set(i, w);
    counts.set(i, count + pi.get(i));
    top = max(top, w);
  }
  drop = -maxima(top);
  const lanes shift = ETA_IS_LARGE ? drop : none;
  lanes totals = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    const lanes p = exp2_of(max(log_weights.get(i) + shift, none + HIDDEN_LEAST_EXPONENT));
    pi.set(i, p);
    totals += i + 1 < size ? p : p * real.get(i);
  }
  const lanes scale = 1. / sums(totals);
  for (std::size_t i = 0; i < size; ++i) { pi.set(i, pi.get(i) * scale); }
}
}  // namespace opo_cmab
