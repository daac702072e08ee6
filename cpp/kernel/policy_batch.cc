#include "kernel/policy_batch.h"

#include "kernel/optimistic_loss.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace
{
using namespace opo_cmab;

constexpr std::size_t GROUP = policy_batch::GROUP;
constexpr std::size_t VECTORS = GROUP / LANES;

class round_step
{
public:
  std::size_t run;
  double half_beta;
  double decay;
  double eta;
};

/// One step of a group of contexts.
/// \param rows the row of predictions for each action
/// \param scales the factor on the bonuses of each context
OPO_CMAB_VECTORIZED
void step_group(policy_batch::action_state* states, std::size_t actions, const double* predictions, const int64_t* rows,
    std::size_t row_size, const double* scales, const round_step& step)
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
      const lanes prediction = min(load(f + i), none + LARGEST_LOSS);
      const lanes loss = optimistic_loss(prediction, step.half_beta * load(scales + i) * load(s.inverse_count + i));
      const lanes w = step.decay * load(s.log_weight + i) - step.eta * loss;
      store(s.log_weight + i, w);
      top[i / LANES] = max(top[i / LANES], w);
    }
  }

  lanes total[VECTORS] = {};
  for (std::size_t a = 0; a < actions; ++a)
  {
    auto& s = states[a];
    integer_lanes active = {};
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      const lanes w = load(s.log_weight + i) - top[i / LANES];  // relative to the largest, for precision
      store(s.log_weight + i, w);
      active |= w > NEGLIGIBLE;
    }
    if (s.active)
    {
      for (std::size_t i = 0; i < GROUP; i += LANES)
      {
        const lanes count = load(s.count + i) + load(s.pi + i);
        store(s.count + i, count);
        store(s.inverse_count + i, 1. / count);
        store(s.pi + i, none);
      }
    }
    s.active = (active[0] | active[1] | active[2] | active[3]) != 0;
    if (!s.active) { continue; }
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      const lanes w = load(s.log_weight + i);
      const lanes weight = exp_of(max(w, none + NEGLIGIBLE));
      const lanes p = w > NEGLIGIBLE ? weight : none;
      store(s.pi + i, p);
      total[i / LANES] += p;
    }
  }
  for (std::size_t v = 0; v < VECTORS; ++v) { total[v] = 1. / total[v]; }
  for (std::size_t a = 0; a < actions; ++a)
  {
    if (!states[a].active) { continue; }
    for (std::size_t i = 0; i < GROUP; i += LANES)
    {
      store(states[a].pi + i, load(states[a].pi + i) * total[i / LANES]);
    }
  }
}
}  // namespace

namespace opo_cmab
{
policy_batch::policy_batch(
    const policy_settings& settings, std::size_t contexts, std::size_t actions, std::vector<double> scales)
    : _settings(settings)
    , _contexts(contexts)
    , _actions(actions)
    , _states((contexts + GROUP - 1) / GROUP * actions)
    , _scales(std::move(scales))
{
  _scales.resize((contexts + GROUP - 1) / GROUP * GROUP, 1.);
  for (auto& s : _states)
  {
    std::fill_n(s.log_weight, GROUP, 0.);
    std::fill_n(s.pi, GROUP, 1. / static_cast<double>(actions));
    std::fill_n(s.count, GROUP, 1.);
    std::fill_n(s.inverse_count, GROUP, 1.);
    s.active = true;
  }
}

void policy_batch::step(const runs& past)
{
  std::vector<round_step> steps;
  for (std::size_t r = 0; r < past.count; ++r)
  {
    for (int64_t i = 0; i < past.lengths[r]; ++i)
    {
      ++_rounds;
      steps.push_back({r, _settings.half_beta(static_cast<double>(_rounds), _actions), _settings.decay, _settings.eta});
    }
  }

  for (std::size_t first = 0; first < _contexts; first += GROUP)
  {
    for (const auto& step : steps)
    {
      step_group(&_states[first / GROUP * _actions], _actions, past.predictions + first,
          past.rows + step.run * _actions, past.row_size, &_scales[first], step);
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
