#include "kernel/policy.h"

#include "kernel/past_predictions.h"

#include <algorithm>
#include <cmath>

namespace opo_cmab
{
namespace
{
constexpr std::size_t BLOCK = 256;  // segments whose losses are computed at once
}  // namespace

void policy::start(const policy_settings& settings, std::size_t actions)
{
  _settings = settings;
  _k = 1;
  _recursion.start(actions);
  _active_set.start(settings, actions);
  _segment_step.start(settings, actions);
  _half_betas.resize(BLOCK);
  _losses.resize(BLOCK * actions);
  _padded.resize(_recursion.pi.size());
}

void policy::compute_half_betas(std::size_t rounds)
{
  while (_roots.size() < _k + rounds) { _roots.push_back(std::sqrt(static_cast<double>(_roots.size()))); }
  const double scale = 0.5 * _settings.gamma / std::sqrt(static_cast<double>(_recursion.actions));
  const bool constant = _settings.beta >= 0.;
  const double* roots = _roots.data() + _k;
  for (std::size_t i = 0; i < rounds; ++i) { _half_betas[i] = constant ? 0.5 * _settings.beta : scale * roots[i]; }
}

/// \param losses of each action, `stride` apart
void policy::pad(const double* losses, std::size_t stride)
{
  for (std::size_t a = 0; a < _padded.size(); ++a) { _padded[a] = losses[(a < _recursion.actions ? a : 0) * stride]; }
}

void policy::step(const double* losses)
{
  pad(losses, 1);
  step_segment(1, half_beta());
}

double policy::half_beta() const { return _settings.half_beta(static_cast<double>(_k), _recursion.actions); }

void policy::step_segment(uint32_t rounds, double half_beta)
{
  if (rounds == 1)
  {
    double drop = 0.;
    _recursion.step(_padded.data(), &half_beta, 1, _settings.decay, _settings.eta, &drop);
  }
  else { _segment_step.step(_recursion, _padded.data(), static_cast<double>(_k), rounds); }
  _k += rounds;
}

void policy::step_observed(uint32_t rounds, double half_beta, const step_observer& observer)
{
  const std::size_t n = _recursion.actions;
  const std::vector<double> pi(_recursion.pi.begin(), _recursion.pi.begin() + static_cast<std::ptrdiff_t>(n));
  std::vector<double> bonuses(n);
  for (std::size_t a = 0; a < n; ++a) { bonuses[a] = std::min(1., half_beta / _recursion.counts[a]); }
  const std::size_t first = _k - 1;
  step_segment(rounds, half_beta);
  if (rounds > 1) { _segment_step.bonuses(_recursion, bonuses.data()); }
  observer(first, rounds, _padded.data(), bonuses.data(), pi.data());
}

void policy::replay(past_predictions& predictions, const loss_map& map, const step_observer& observer)
{
  const auto& past = predictions.past();
  const bool exact = past.budget() == 0;
  for (std::size_t first = 0; first < past.size(); first += BLOCK)
  {
    const std::size_t count = std::min(BLOCK, past.size() - first);
    predictions.take(count, map, _losses.data(), BLOCK);
    if (exact) { compute_half_betas(count); }
    std::size_t i = 0;
    if (exact && !observer)
    {
      for (; i + active_set::STRETCH <= count; i += active_set::STRETCH)
      {
        _active_set.step(_recursion, &_losses[i], BLOCK, &_half_betas[i]);
      }
      _k += i;
    }
    for (; i < count; ++i)
    {
      pad(&_losses[i], BLOCK);
      const uint32_t rounds = past.length(first + i);
      const double half_beta_now = exact ? _half_betas[i] : half_beta();
      if (observer) { step_observed(rounds, half_beta_now, observer); }
      else { step_segment(rounds, half_beta_now); }
    }
  }
}
}  // namespace opo_cmab
