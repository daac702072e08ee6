#include "kernel/recursion.h"

#include "kernel/action_arrays.h"
#include "kernel/vectorized.h"

#include <algorithm>

namespace
{
using namespace opo_cmab;

/// Rounds to step through.
class round_input
{
public:
  const double* losses;      ///< by round and action
  const double* half_betas;  ///< by round
  std::size_t rounds;
  double decay;
  double eta;
  double* drops;  ///< output: the drop of the largest log-weight in each round, before all become relative to it
};

template <bool ETA_IS_LARGE, typename Array>
OPO_CMAB_INLINE void step_rounds(
    Array& pi, Array& log_weights, Array& counts, const Array& real, std::size_t size, const round_input& input)
{
  constexpr double LOG_2 = 1. / LOG2_E;
  for (std::size_t i = 0; i < size; ++i) { log_weights.set(i, log_weights.get(i) * LOG2_E); }
  lanes drop = {};
  for (std::size_t k = 0; k < input.rounds; ++k)
  {
    step_round<ETA_IS_LARGE>(pi, log_weights, counts, real, size, input.losses + k * size * LANES, input.half_betas[k],
        input.decay, input.eta * LOG2_E, drop);
    input.drops[k] = drop[0] * LOG_2;
  }
  const lanes none = {};
  for (std::size_t i = 0; i < size; ++i)
  {
    const lanes w = (log_weights.get(i) + drop) * LOG_2;
    log_weights.set(i, w);
    pi.set(i, w > NEGLIGIBLE ? pi.get(i) : none);
  }
}

/// \param size of the arrays, in lanes
template <typename Array>
OPO_CMAB_INLINE void step_arrays(
    double* pi, double* log_weights, double* counts, double* real, std::size_t size, const round_input& input)
{
  Array p(pi);
  Array w(log_weights);
  Array c(counts);
  const Array r(real);
  if (input.eta * LOG2_E > LARGE_ETA) { step_rounds<true>(p, w, c, r, size, input); }
  else { step_rounds<false>(p, w, c, r, size, input); }
  p.write(pi);
  w.write(log_weights);
  c.write(counts);
}

OPO_CMAB_VECTORIZED
void step_actions(
    double* pi, double* log_weights, double* counts, double* real, std::size_t size, const round_input& input)
{
  if (size == LANES) { return step_arrays<in_registers<1>>(pi, log_weights, counts, real, 1, input); }
  if (size == 2 * LANES) { return step_arrays<in_registers<2>>(pi, log_weights, counts, real, 2, input); }
  if (size == 3 * LANES) { return step_arrays<in_registers<3>>(pi, log_weights, counts, real, 3, input); }
  step_arrays<in_memory>(pi, log_weights, counts, real, size / LANES, input);
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
  real.assign(size, 0.);
  std::fill_n(real.begin(), count, 1.);
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
  step_actions(pi.data(), log_weights.data(), counts.data(), real.data(), pi.size(),
      {losses, half_betas, rounds, decay, eta, drops});
}
}  // namespace opo_cmab
