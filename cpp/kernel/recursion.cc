#include "kernel/recursion.h"

#include "kernel/optimistic_loss.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

/// An array of a recursion, by lanes: in memory, or a copy in registers.
class in_memory
{
public:
  explicit in_memory(double* values) : _values(values) {}
  OPO_CMAB_INLINE lanes get(std::size_t i) const { return load(_values + i * LANES); }
  OPO_CMAB_INLINE void set(std::size_t i, lanes x) { store(_values + i * LANES, x); }

private:
  double* _values;
};

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

/// Rounds to be stepped through.
class round_input
{
public:
  const double* losses;      ///< of each round, of each action
  const double* half_betas;  ///< of each round
  std::size_t rounds;
  double decay;
  double eta;
  double* drops;  ///< what the largest log-weight loses in each round, before all become relative to it: set
};

/// \param size of the arrays, in lanes
template <typename Array>
OPO_CMAB_INLINE void step_arrays(
    Array& pi, Array& log_weights, Array& counts, const Array& real, std::size_t size, const round_input& input)
{
  const lanes none = {};
  const double* losses = input.losses;
  for (std::size_t k = 0; k < input.rounds; ++k)
  {
    lanes top = none - HUGE_VAL;
    for (std::size_t i = 0; i < size; ++i)
    {
      const lanes count = counts.get(i);
      const lanes loss = optimistic_loss(load(losses + i * LANES), input.half_betas[k] / count);
      const lanes w = input.decay * log_weights.get(i) - input.eta * loss;
      log_weights.set(i, w);
      counts.set(i, count + pi.get(i));
      top = max(top, w);
    }
    const double drop = -largest(top);
    lanes totals = none;
    for (std::size_t i = 0; i < size; ++i)
    {
      const lanes w = log_weights.get(i) + drop;  // relative to the largest, for precision
      const lanes weight = exp_of_negative(max(w, none + NEGLIGIBLE));
      const lanes p = w > NEGLIGIBLE ? weight : none;
      log_weights.set(i, w);
      pi.set(i, p);
      totals += p * real.get(i);
    }
    const double scale = 1. / sum(totals);
    for (std::size_t i = 0; i < size; ++i) { pi.set(i, pi.get(i) * scale); }
    input.drops[k] = drop;
    losses += size * LANES;
  }
}

/// The same for few actions, which stay in registers all the time.
template <std::size_t SIZE>
OPO_CMAB_INLINE void step_registers(
    double* pi, double* log_weights, double* counts, double* real, const round_input& input)
{
  in_registers<SIZE> p(pi);
  in_registers<SIZE> w(log_weights);
  in_registers<SIZE> c(counts);
  const in_registers<SIZE> r(real);
  step_arrays(p, w, c, r, SIZE, input);
  p.write(pi);
  w.write(log_weights);
  c.write(counts);
}

OPO_CMAB_VECTORIZED
void step_actions(
    double* pi, double* log_weights, double* counts, double* real, std::size_t size, const round_input& input)
{
  if (size == LANES) { return step_registers<1>(pi, log_weights, counts, real, input); }
  if (size == 2 * LANES) { return step_registers<2>(pi, log_weights, counts, real, input); }
  if (size == 3 * LANES) { return step_registers<3>(pi, log_weights, counts, real, input); }
  in_memory p(pi);
  in_memory w(log_weights);
  in_memory c(counts);
  const in_memory r(real);
  step_arrays(p, w, c, r, size / LANES, input);
}
}  // namespace

namespace opo_cmab
{
void recursion::resize(std::size_t count)
{
  if (count == actions) { return; }
  actions = count;
  const std::size_t size = up_to_lanes(count);
  pi.resize(size);
  log_weights.resize(size);
  counts.resize(size);
  _real.assign(size, 0.);
  std::fill_n(_real.begin(), count, 1.);
}

void recursion::start(std::size_t count)
{
  resize(count);
  std::fill(pi.begin(), pi.end(), 1. / static_cast<double>(count));
  std::fill(log_weights.begin(), log_weights.end(), 0.);
  std::fill(counts.begin(), counts.end(), 1.);
}

void recursion::start(const recursion& from, const std::vector<std::size_t>& those)
{
  resize(those.size());
  for (std::size_t i = 0; i < pi.size(); ++i) { copy(i, from, those[i < actions ? i : 0]); }
}

void recursion::copy(std::size_t action, const recursion& from, std::size_t action_there)
{
  pi[action] = from.pi[action_there];
  log_weights[action] = from.log_weights[action_there];
  counts[action] = from.counts[action_there];
}

void recursion::step(
    const double* losses, const double* half_betas, std::size_t rounds, double decay, double eta, double* drops)
{
  step_actions(pi.data(), log_weights.data(), counts.data(), _real.data(), pi.size(),
      {losses, half_betas, rounds, decay, eta, drops});
}
}  // namespace opo_cmab
