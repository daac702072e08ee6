#include "kernel/policy_batch.h"

#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace
{
using opo_cmab::policy_batch;

constexpr std::size_t GROUP = policy_batch::GROUP;
constexpr double NEGLIGIBLE = -40.;
const double EXP_NEGLIGIBLE = std::exp(NEGLIGIBLE);

/// A step through some rounds that are taken to be alike.
class step_factors
{
public:
  std::size_t segment;
  double rounds;
  double half_beta;
  double decay;
  double eta;

  step_factors(
      const opo_cmab::policy_settings& settings, std::size_t actions, std::size_t segment, double before, double rounds)
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

/// exp(x) for x in [-40, 0], to 4e-16 of its value, for loops that become vectors: a library's exp is a call.
/// x = n log 2 + r, |r| <= log(2) / 2, and exp(r) by its Taylor series.
inline double exp_of_negative(double x)
{
  constexpr double SHIFT = 6755399441055744.;  // 1.5 * 2^52: adding it rounds to an integer, in the lowest bits
  const double shifted = x * 1.4426950408889634 + SHIFT;
  const double n = shifted - SHIFT;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;  // log 2 in two parts
  double sum = 1. / 479001600.;                                                         // 1 / 12!
  sum = sum * r + 1. / 39916800.;
  sum = sum * r + 1. / 3628800.;
  sum = sum * r + 1. / 362880.;
  sum = sum * r + 1. / 40320.;
  sum = sum * r + 1. / 5040.;
  sum = sum * r + 1. / 720.;
  sum = sum * r + 1. / 120.;
  sum = sum * r + 1. / 24.;
  sum = sum * r + 1. / 6.;
  sum = sum * r + 1. / 2.;
  sum = sum * r + 1.;
  sum = sum * r + 1.;
  uint64_t bits = 0;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + 1023) << 52;  // 2^n: of the bits of shifted, only the lowest are left
  double power = 0.;
  std::memcpy(&power, &bits, sizeof(power));
  return sum * power;
}

/// One step of a group of contexts.
/// \param rows of each action: which row of predictions is its
OPO_CMAB_VECTORIZED_WIDE
void step_group(policy_batch::action_state* states, std::size_t actions, const double* predictions, const int64_t* rows,
    std::size_t row_size, const step_factors& factors)
{
  double largest[GROUP];
  std::fill_n(largest, GROUP, -HUGE_VAL);
  for (std::size_t a = 0; a < actions; ++a)
  {
    auto& s = states[a];
    const double* f = predictions + static_cast<std::size_t>(rows[a]) * row_size;
    for (std::size_t i = 0; i < GROUP; ++i)
    {
      const double bonus = factors.half_beta * s.inverse_count[i];
      const double optimistic = f[i] - (bonus < 1. ? bonus : 1.);
      const double positive = optimistic > 0. ? optimistic : 0.;
      const double w = factors.decay * s.log_weight[i] - factors.eta * (positive < 1. ? positive : 1.);
      s.log_weight[i] = w;
      largest[i] = largest[i] > w ? largest[i] : w;
    }
    if (s.live)
    {
      for (std::size_t i = 0; i < GROUP; ++i)
      {
        s.count[i] += factors.rounds * s.pi[i];
        s.inverse_count[i] = 1. / s.count[i];
      }
    }
  }

  double total[GROUP] = {};
  for (std::size_t a = 0; a < actions; ++a)
  {
    auto& s = states[a];
    double excess[GROUP];  // of the log weight over a negligible one: 0 if the action is not live
    for (std::size_t i = 0; i < GROUP; ++i)
    {
      s.log_weight[i] -= largest[i];  // relative to the largest, for precision
      const double above = s.log_weight[i] - NEGLIGIBLE;
      excess[i] = above > 0. ? above : 0.;
    }
    uint64_t any = 0;
    for (std::size_t i = 0; i < GROUP; ++i)
    {
      uint64_t bits = 0;
      std::memcpy(&bits, &excess[i], sizeof(bits));
      any |= bits;
    }
    const bool was_live = s.live;
    s.live = any != 0;
    if (s.live)
    {
      for (std::size_t i = 0; i < GROUP; ++i)
      {
        s.pi[i] = exp_of_negative(excess[i] + NEGLIGIBLE) - EXP_NEGLIGIBLE;
        total[i] += s.pi[i];
      }
    }
    else if (was_live) { std::fill_n(s.pi, GROUP, 0.); }
  }
  for (std::size_t i = 0; i < GROUP; ++i) { total[i] = 1. / total[i]; }
  for (std::size_t a = 0; a < actions; ++a)
  {
    if (!states[a].live) { continue; }
    for (std::size_t i = 0; i < GROUP; ++i) { states[a].pi[i] *= total[i]; }
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
  std::vector<step_factors> steps;
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
