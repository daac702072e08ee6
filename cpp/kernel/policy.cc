#include "kernel/policy.h"

#include "kernel/past_predictions.h"
#include "kernel/width.h"

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
  if (actions != _recursion.actions) { _losses.assign(BLOCK * up_to_lanes(actions), WORST_LOSS); }
  _settings = settings;
  _k = 1;
  _recursion.start(actions);
  _segment_step.start(settings, actions);
  _half_betas.resize(BLOCK);
}

void policy::compute_half_betas(std::size_t rounds)
{
  while (_roots.size() < _k + rounds) { _roots.push_back(std::sqrt(static_cast<double>(_roots.size()))); }
  const double factor = _settings.half_beta_factor(_recursion.actions);
  const bool constant = _settings.beta_is_constant();
  const double* roots = _roots.data() + _k;
  for (std::size_t i = 0; i < rounds; ++i) { _half_betas[i] = factor * (constant ? 1. : roots[i]); }
}

void policy::step(const double* losses)
{
  const uint32_t one = 1;
  for (std::size_t a = 0; a < _recursion.actions; ++a) { _losses[a] = std::min(LARGEST_LOSS, losses[a]); }
  _segment_step.step(_recursion, _losses.data(), _k++, &one, 1);
}

/// Steps through a block of rounds.
void policy::step_exactly(std::size_t rounds)
{
  compute_half_betas(rounds);
  const std::size_t width = _recursion.pi.size();
  std::size_t i = 0;
  for (; i + active_set::STRETCH <= rounds; i += active_set::STRETCH)
  {
    _active_set.step(_recursion, &_losses[i * width], &_half_betas[i]);
  }
  _k += rounds;
  if (i == rounds) { return; }
  double drops[active_set::STRETCH];
  _recursion.step(&_losses[i * width], &_half_betas[i], rounds - i, _settings.decay, _settings.eta, drops);
}

/// Steps through a block of segments.
void policy::step_observed(const step_observer& observer)
{
  const std::size_t n = _recursion.actions;
  std::vector<double> pi(n);
  std::vector<double> bonuses(n);
  for (std::size_t i = 0; i < _lengths.size(); ++i)
  {
    const double* losses = &_losses[i * _recursion.pi.size()];
    const double half_beta = _settings.half_beta(static_cast<double>(_k), n);
    std::copy_n(_recursion.pi.begin(), n, pi.begin());
    for (std::size_t a = 0; a < n; ++a) { bonuses[a] = std::min(LARGEST_LOSS, half_beta / _recursion.counts[a]); }
    _segment_step.step(_recursion, losses, _k, &_lengths[i], 1);
    if (_lengths[i] > 1) { _segment_step.bonuses(_recursion, bonuses.data()); }
    observer(_k - 1, _lengths[i], losses, bonuses.data(), pi.data());
    _k += _lengths[i];
  }
}

void policy::replay(past_predictions& predictions, const loss_map& map, const step_observer& observer)
{
  const auto& past = predictions.past();
  if (past.budget() == 0) { _active_set.start(_settings, _recursion.actions); }
  for (std::size_t first = 0; first < past.size(); first += BLOCK)
  {
    const std::size_t count = std::min(BLOCK, past.size() - first);
    predictions.take(count, map, _losses.data());
    if (past.budget() == 0 && !observer)
    {
      step_exactly(count);
      continue;
    }
    _lengths.resize(count);
    for (std::size_t i = 0; i < count; ++i) { _lengths[i] = past.length(first + i); }
    if (observer) { step_observed(observer); }
    else
    {
      _segment_step.step(_recursion, _losses.data(), _k, _lengths.data(), count);
      _k += past.first(first + count) - past.first(first);
    }
  }
}
}  // namespace opo_cmab
