#include "kernel/policy_batch.h"

#include "kernel/step.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

constexpr std::size_t GROUP = policy_batch::GROUP;
constexpr std::size_t VECTORS = GROUP / LANES;

/// A step through some rounds that are taken to be alike.
class segment_step
{
public:
  std::size_t segment;
  double rounds;
  double half_beta;
  double decay;
  double eta;

  segment_step(const policy_settings& settings, std::size_t actions, std::size_t segment, double before, double rounds)
      : segment(segment)
      , rounds(rounds)
      , decay(std::pow(settings.decay, rounds))
  {
    const double k = before + 0.5 * (rounds + 1.);  // the middle one
    const double beta =
        settings.beta >= 0. ? settings.beta : settings.gamma * std::sqrt(k / static_cast<double>(actions));
    half_beta = 0.5 * beta;
    eta = settings.eta * (settings.decay < 1. ? (1. - decay) / (1. - settings.decay) : rounds);
  }
};

/// One step of a group of contexts.
/// \param rows of each action: which row of predictions is its
OPO_CMAB_VECTORIZED
void step_group(policy_batch::action_state* states, std::size_t actions, const double* predictions, const int64_t* rows,
    std::size_t row_size, const segment_step& step)
{
  const lanes none = {};
  lanes top[VECTORS];
  for (std::size_t v = 0; v < VECTORS; ++v) { top[v] = none - HUGE_VAL; }
  for (std::size_t a = 0; a < actions; ++a)
  {
    auto& s = states[a];
    const double* f = predictions + static_cast<std::size_t>(rows[a]) * row_size;
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      const lanes loss = optimistic_loss(load(f + i), step.half_beta * load(s.inverse_count + i));
      const lanes w = step.decay * load(s.log_weight + i) - step.eta * loss;
      store(s.log_weight + i, w);
      top[i / LANES] = max(top[i / LANES], w);
    }
  }

  lanes total[VECTORS] = {};
  for (std::size_t a = 0; a < actions; ++a)
  {
    auto& s = states[a];
    integer_lanes live = {};
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      const lanes w = load(s.log_weight + i) - top[i / LANES];  // relative to the largest, for precision
      store(s.log_weight + i, w);
      live |= w > NEGLIGIBLE;
    }
    if (s.live)
    {
      for (std::size_t i = 0; i < GROUP; i += LANES)
      {
        const lanes count = load(s.count + i) + step.rounds * load(s.pi + i);
        store(s.count + i, count);
        store(s.inverse_count + i, 1. / count);
        store(s.pi + i, none);
      }
    }
    s.live = (live[0] | live[1] | live[2] | live[3]) != 0;
    if (!s.live) { continue; }
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      const lanes w = load(s.log_weight + i);
      const lanes weight = exp_of_negative(max(w, none + NEGLIGIBLE));
      const lanes p = w > NEGLIGIBLE ? weight : none;
      store(s.pi + i, p);
      total[i / LANES] += p;
    }
  }
  for (std::size_t v = 0; v < VECTORS; ++v) { total[v] = 1. / total[v]; }
  for (std::size_t a = 0; a < actions; ++a)
  {
    if (!states[a].live) { continue; }
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      store(states[a].pi + i, load(states[a].pi + i) * total[i / LANES]);
    }
  }
}
}  // namespace

namespace opo_cmab
{
policy_batch::policy_batch(const policy_settings& settings, std::size_t contexts, std::size_t actions)
    : _settings(settings)
    , _contexts(contexts)
    , _actions(actions)
    , _states((contexts + GROUP - 1) / GROUP * actions)
{
  for (auto& s : _states)
  {
    std::fill_n(s.log_weight, GROUP, 0.);
    std::fill_n(s.pi, GROUP, 1. / static_cast<double>(actions));
    std::fill_n(s.count, GROUP, 1.);
    std::fill_n(s.inverse_count, GROUP, 1.);
    s.live = true;
  }
}

void policy_batch::step(const segments& past, std::size_t most_steps)
{
  std::vector<segment_step> steps;
  for (std::size_t s = 0; s < past.count; ++s)
  {
    const auto length = static_cast<std::size_t>(past.lengths[s]);
    const std::size_t count = most_steps == 0 ? length : std::min(length, most_steps);
    const double rounds = static_cast<double>(length) / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i)
    {
      steps.emplace_back(
          _settings, _actions, s, static_cast<double>(_rounds) + static_cast<double>(i) * rounds, rounds);
    }
    _rounds += length;
  }

  for (std::size_t first = 0; first < _contexts; first += GROUP)
  {
    for (const auto& step : steps)
    {
      step_group(&_states[first / GROUP * _actions], _actions, past.predictions + first,
          past.rows + step.segment * _actions, past.row_size, step);
    }
  }
}

void policy_batch::probabilities(double* result) const
{
  for (std::size_t c = 0; c < _contexts; ++c)
  {
    const auto* states = &_states[c / GROUP * _actions];
    for (std::size_t a = 0; a < _actions; ++a) { result[c * _actions + a] = states[a].pi[c % GROUP]; }
  }
}
}  // namespace opo_cmab
