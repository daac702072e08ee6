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
OPO_CMAB_VECTORIZED
void drops_if_always_played(
    const double* __restrict losses, const double* __restrict half_betas, double count, double eta, double* drops)
{
  lanes counts = {count, count + 1., count + 2., count + 3.};
  for (std::size_t k = 0; k < STRETCH; k += LANES)
  {
    store(drops + k, eta * optimistic_loss(load(losses + k), load(half_betas + k) / counts));
    counts += static_cast<double>(LANES);
  }
}

/// A stretch of rounds, as input for the inactive actions.
class stretch_input
{
public:
  const double* losses;  ///< by action (`stride` apart) and round
  std::size_t stride;
  const double* half_betas;  ///< by round
  const double* drops;       ///< by round: the drop of the largest log-weight
  const double* powers;      ///< of decay: the factor of each round's loss at the end
  double eta;
  double decay;
};

/// Whether an inactive action with log-weight w becomes active within a stretch.
OPO_CMAB_INLINE bool becomes_active(const stretch_input& s, const double* losses, double inverse_count, double w)
{
  for (std::size_t k = 0; k < STRETCH; ++k)
  {
    w = s.decay * w - (s.eta * optimistic_loss(losses[k], s.half_betas[k] * inverse_count) - s.drops[k]);
    if (w > NEGLIGIBLE) { return true; }
  }
  return false;
}

/// Advances the inactive actions over a stretch.
/// \param log_weights before the stretch, relative to the largest
/// \param result log-weights after the stretch
/// \param active set for actions that became active
/// \return whether none did
OPO_CMAB_VECTORIZED
bool step_unplayed(const stretch_input& s, const std::vector<std::size_t>& actions, const double* counts,
    const double* log_weights, double* result, char* active)
{
  lanes power_sum = {};
  for (std::size_t k = 0; k < STRETCH; k += LANES) { power_sum += load(s.powers + k); }
  const double powers = sum(power_sum);
  const double left = s.decay * s.powers[0];
  bool none_active = true;
  for (const auto a : actions)
  {
    const double* losses = s.losses + a * s.stride;
    const double inverse_count = 1. / counts[a];
    lanes least = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    lanes weighted = {};
    for (std::size_t k = 0; k < STRETCH; k += LANES)
    {
      const lanes loss = optimistic_loss(load(losses + k), load(s.half_betas + k) * inverse_count);
      const lanes difference = s.eta * loss - load(s.drops + k);
      least = min(least, difference);
      weighted += load(s.powers + k) * difference;
    }
    result[a] = left * log_weights[a] - sum(weighted);
    // A bound: with the least difference in every round, the log-weight moves monotonically from start to end.
    const double bound = left * log_weights[a] + powers * largest(-least);
    if (bound > NEGLIGIBLE && becomes_active(s, losses, inverse_count, log_weights[a]))
    {
      active[a] = 1;
      none_active = false;
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
  _settings = settings;
  _is_active.resize(actions);
  _active_losses.resize(STRETCH * up_to_lanes(actions));
  _log_weights.resize(actions);
  _powers.resize(STRETCH);
  double power = 1.;
  for (std::size_t k = STRETCH; k-- > 0; power *= settings.decay) { _powers[k] = power; }
}

void active_set::step(recursion& all, const double* losses, std::size_t stride, const double* half_betas)
{
  double drops[STRETCH];  // of the largest log-weight, by round
  const stretch_input input = {losses, stride, half_betas, drops, _powers.data(), _settings.eta, _settings.decay};
  std::size_t active = 0;
  for (std::size_t a = 0; a < all.actions; ++a)
  {
    _is_active[a] = all.pi[a] > 0. ? 1 : 0;
    active += _is_active[a];
  }
  // With many active, the others would often become so too, and have us repeat the stretch.
  if (active > 1 && 3 * active > all.actions) { std::fill(_is_active.begin(), _is_active.end(), char{1}); }
  do {
    _active.clear();
    _others.clear();
    for (std::size_t a = 0; a < all.actions; ++a) { (_is_active[a] != 0 ? _active : _others).push_back(a); }
    step_active(all, losses, stride, half_betas, drops);
  } while (!step_unplayed(
      input, _others, all.counts.data(), all.log_weights.data(), _log_weights.data(), _is_active.data()));

  for (const auto a : _others) { all.log_weights[a] = _log_weights[a]; }
  if (_active.size() == 1) { all.counts[_active[0]] += static_cast<double>(STRETCH); }
  else
  {
    for (std::size_t i = 0; i < _active.size(); ++i) { all.copy(_active[i], _active_recursion, i); }
  }
  for (std::size_t a = all.actions; a < all.pi.size(); ++a) { all.copy(a, all, 0); }
}

void active_set::step_active(
    const recursion& all, const double* losses, std::size_t stride, const double* half_betas, double* drops)
{
  if (_active.size() == 1)
  {
    const std::size_t a = _active[0];
    drops_if_always_played(losses + a * stride, half_betas, all.counts[a], _settings.eta, drops);
    return;
  }
  _active_recursion.start(all, _active);
  const std::size_t size = _active_recursion.pi.size();
  for (std::size_t i = 0; i < size; i += LANES)
  {
    static_assert(LANES == 4, "four columns at once");
    const double* own[LANES];
    for (std::size_t j = 0; j < LANES; ++j) { own[j] = losses + _active[i + j < _active.size() ? i + j : 0] * stride; }
    for (std::size_t k = 0; k < STRETCH; ++k)
    {
      store(&_active_losses[k * size + i], lanes{own[0][k], own[1][k], own[2][k], own[3][k]});
    }
  }
  _active_recursion.step(_active_losses.data(), half_betas, STRETCH, _settings.decay, _settings.eta, drops);
}
}  // namespace opo_cmab
