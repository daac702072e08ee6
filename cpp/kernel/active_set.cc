#include "kernel/active_set.h"

#include "kernel/optimistic_loss.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

constexpr std::size_t STRETCH = active_set::STRETCH;

/// The drop of the log-weight in each round of a stretch, for an action that is always played.
/// \param losses of the action, `width` apart
OPO_CMAB_VECTORIZED
void drops_if_always_played(const double* losses, std::size_t width, const double* half_betas, double count, double eta,
    double* __restrict drops)
{
  lanes counts = {count, count + 1., count + 2., count + 3.};
  for (std::size_t k = 0; k < STRETCH; k += LANES)
  {
    const double* next = losses + k * width;
    const lanes its_losses = {next[0], next[width], next[2 * width], next[3 * width]};
    store(drops + k, eta * optimistic_loss(its_losses, load(half_betas + k) / counts));
    counts += static_cast<double>(LANES);
  }
}

/// A stretch of rounds, as input for the inactive actions.
class stretch_input
{
public:
  const double* losses;      ///< by round and action
  std::size_t width;         ///< actions, padded
  const double* half_betas;  ///< by round
  const double* drops;       ///< by round: the drop of the largest log-weight
  const double* powers;      ///< of decay: the factor of each round's loss at the end
  double eta;
  double decay;
};

/// Whether an inactive action with log-weight w becomes active within a stretch.
OPO_CMAB_INLINE bool becomes_active(const stretch_input& s, std::size_t action, double inverse_count, double w)
{
  for (std::size_t k = 0; k < STRETCH; ++k)
  {
    w = s.decay * w -
        (s.eta * optimistic_loss(s.losses[k * s.width + action], s.half_betas[k] * inverse_count) - s.drops[k]);
    if (w > NEGLIGIBLE) { return true; }
  }
  return false;
}

/// Advances the inactive actions over a stretch.
/// \param log_weights before the stretch, relative to the largest
/// \param result log-weights after the stretch; those of active actions mean nothing
/// \param active set for actions that became active
/// \return whether none did
OPO_CMAB_VECTORIZED
bool step_unplayed(
    const stretch_input& s, const double* counts, const double* log_weights, double* result, char* active)
{
  lanes power_sum = {};
  for (std::size_t k = 0; k < STRETCH; k += LANES) { power_sum += load(s.powers + k); }
  const double powers = sum(power_sum);
  const double left = s.decay * s.powers[0];
  bool none_active = true;
  for (std::size_t a = 0; a < s.width; a += LANES)
  {
    if (std::count(active + a, active + a + LANES, 1) == LANES) { continue; }
    const lanes inverse_counts = 1. / load(counts + a);
    lanes least = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    lanes weighted[LANES] = {};
    for (std::size_t first = 0; first < STRETCH; first += LANES)
    {
      for (std::size_t i = 0; i < LANES; ++i)
      {
        const std::size_t k = first + i;
        const lanes loss = optimistic_loss(load(s.losses + k * s.width + a), s.half_betas[k] * inverse_counts);
        const lanes difference = s.eta * loss - s.drops[k];
        least = min(least, difference);
        weighted[i] += s.powers[k] * difference;
      }
    }
    const lanes start = left * load(log_weights + a);
    store(result + a, start - ((weighted[0] + weighted[2]) + (weighted[1] + weighted[3])));
    // A bound: with the least difference in every round, the log-weight moves monotonically from start to end.
    const lanes bound = start + powers * -least;
    for (std::size_t i = 0; i < LANES; ++i)
    {
      if (active[a + i] == 0 && bound[i] > NEGLIGIBLE &&
          becomes_active(s, a + i, inverse_counts[i], log_weights[a + i]))
      {
        active[a + i] = 1;
        none_active = false;
      }
    }
  }
  return none_active;
}
}  // namespace

namespace opo_cmab
{
constexpr std::size_t active_set::STRETCH;

void active_set::start(const policy_settings& settings, std::size_t actions)
{
  const std::size_t width = up_to_lanes(actions);
  _settings = settings;
  _is_active.assign(width, 1);
  _active_losses.resize(STRETCH * width);
  _log_weights.resize(width);
  _powers.resize(STRETCH);
  double power = 1.;
  for (std::size_t k = STRETCH; k-- > 0; power *= settings.decay) { _powers[k] = power; }
}

void active_set::step(recursion& all, const double* losses, const double* half_betas)
{
  double drops[STRETCH];  // of the largest log-weight, by round
  const std::size_t width = all.pi.size();
  const stretch_input input = {losses, width, half_betas, drops, _powers.data(), _settings.eta, _settings.decay};
  std::size_t active = 0;
  for (std::size_t a = 0; a < all.actions; ++a)
  {
    _is_active[a] = all.pi[a] > 0. ? 1 : 0;
    active += _is_active[a];
  }
  // With many active, the others would often become so too, and have us repeat the stretch.
  if (active > 1 && 3 * active > all.actions)
  {
    all.step(losses, half_betas, STRETCH, _settings.decay, _settings.eta, drops);
    for (std::size_t a = all.actions; a < width; ++a) { all.copy(a, all, 0); }
    return;
  }
  do {
    _active.clear();
    for (std::size_t a = 0; a < all.actions; ++a)
    {
      if (_is_active[a] != 0) { _active.push_back(a); }
    }
    step_active(all, losses, half_betas, drops);
  } while (!step_unplayed(input, all.counts.data(), all.log_weights.data(), _log_weights.data(), _is_active.data()));

  for (std::size_t a = 0; a < all.actions; ++a)
  {
    if (_is_active[a] == 0) { all.log_weights[a] = _log_weights[a]; }
  }
  if (_active.size() == 1) { all.counts[_active[0]] += static_cast<double>(STRETCH); }
  else
  {
    for (std::size_t i = 0; i < _active.size(); ++i) { all.copy(_active[i], _active_recursion, i); }
  }
  for (std::size_t a = all.actions; a < width; ++a) { all.copy(a, all, 0); }
}

void active_set::step_active(const recursion& all, const double* losses, const double* half_betas, double* drops)
{
  const std::size_t width = all.pi.size();
  if (_active.size() == 1)
  {
    const std::size_t a = _active[0];
    drops_if_always_played(losses + a, width, half_betas, all.counts[a], _settings.eta, drops);
    return;
  }
  _active_recursion.start(all, _active);
  const std::size_t size = _active_recursion.pi.size();
  for (std::size_t i = 0; i < size; ++i)
  {
    const double* own = losses + _active[i < _active.size() ? i : 0];
    for (std::size_t k = 0; k < STRETCH; ++k) { _active_losses[k * size + i] = own[k * width]; }
  }
  _active_recursion.step(_active_losses.data(), half_betas, STRETCH, _settings.decay, _settings.eta, drops);
}
}  // namespace opo_cmab
