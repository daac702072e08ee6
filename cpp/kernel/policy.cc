#include "kernel/policy.h"

#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
constexpr double NEGLIGIBLE = -40.;
constexpr std::size_t BLOCK = 256;  // rounds whose losses are computed at once
constexpr int STRETCH = 32;         // rounds that are stepped through at once

/// The optimistic loss clip(loss - b, 0, 1) with the bonus b = min(1, half_beta / (1 + N))
inline double optimistic_loss(double loss, double half_beta, double inverse_count)
{
  const double bonus = half_beta * inverse_count;
  const double optimistic = loss - (bonus < 1. ? bonus : 1.);
  const double positive = optimistic > 0. ? optimistic : 0.;
  return positive < 1. ? positive : 1.;
}

/// The optimistic losses of an action over a stretch of rounds in which it is always played.
OPO_CMAB_VECTORIZED
void losses_if_always_played(
    const double* __restrict losses, const double* __restrict half_betas, double count, double* __restrict result)
{
  for (int k = 0; k < STRETCH; ++k)
  {
    result[k] = optimistic_loss(losses[k], half_betas[k], 1. / (count + static_cast<double>(k)));
  }
}

/// The optimistic losses of an action over a stretch of rounds in which it is never played, less those of the leader.
OPO_CMAB_VECTORIZED
void differences_if_never_played(const double* __restrict losses, const double* __restrict half_betas,
    double inverse_count, const double* __restrict leader_losses, double* __restrict result)
{
  for (int k = 0; k < STRETCH; ++k)
  {
    result[k] = optimistic_loss(losses[k], half_betas[k], inverse_count) - leader_losses[k];
  }
}

/// Steps the weights of several actions relative to the leader's through a stretch. Several at once: each is a chain of
/// operations that wait for one another.
/// \return the largest weight on the way
template <int ACTIONS>
double step_relative_weights(double* log_weights, const double* differences, double eta, double decay)
{
  double w[ACTIONS];
  double largest[ACTIONS];
  std::copy_n(log_weights, ACTIONS, w);
  std::copy_n(log_weights, ACTIONS, largest);
  for (int k = 0; k < STRETCH; ++k)
  {
    for (int i = 0; i < ACTIONS; ++i)
    {
      w[i] = decay * w[i] - eta * differences[i * STRETCH + k];
      largest[i] = w[i] > largest[i] ? w[i] : largest[i];
    }
  }
  std::copy_n(w, ACTIONS, log_weights);
  return *std::max_element(largest, largest + ACTIONS);
}

/// Turns the changes of some actions from predictor to predictor into losses. Several at once: each is a chain of
/// additions, which would wait for one another.
template <std::size_t ACTIONS>
void accumulate(const double* changes, std::size_t stride, double* losses, double* predictions, std::size_t rounds,
    const opo_cmab::loss_map& map)
{
  double prediction[ACTIONS];
  std::copy_n(predictions, ACTIONS, prediction);
  for (std::size_t k = 0; k < rounds; ++k)
  {
    for (std::size_t a = 0; a < ACTIONS; ++a)
    {
      prediction[a] += changes[a * stride + k];
      losses[a * BLOCK + k] = map.offset + map.scale * prediction[a];
    }
  }
  std::copy_n(prediction, ACTIONS, predictions);
}

/// The same for one action and any map, computing a loss only where the prediction has changed.
void accumulate_mapped(
    const double* changes, double* losses, double& prediction, std::size_t rounds, const opo_cmab::loss_map& map)
{
  double loss = map.loss(prediction);
  for (std::size_t k = 0; k < rounds; ++k)
  {
    if (changes[k] != 0.)
    {
      prediction += changes[k];
      loss = map.loss(prediction);
    }
    losses[k] = loss;
  }
}

double sigmoid(double margin) { return 1. / (1. + std::exp(-margin)); }
}  // namespace

namespace opo_cmab
{
double loss_map::loss(double prediction) const
{
  return offset + scale * (logistic ? sigmoid(prediction) : prediction);
}

void policy::start(const policy_settings& settings, std::size_t actions)
{
  if (settings.decay != _settings.decay) { _decayed.clear(); }
  _settings = settings;
  _k = 1;
  _leader = 0;
  _leader_alone = actions == 1;
  _pi.assign(actions, 1. / static_cast<double>(actions));
  _log_weights.assign(actions, 0.);
  _counts.assign(actions, 1.);
  _inverse_counts.assign(actions, 1.);
  _half_betas.resize(BLOCK);
  _others.resize(actions);
  _differences.resize(actions * STRETCH);
  _losses.resize(BLOCK * actions);
}

void policy::compute_half_betas(std::size_t rounds)
{
  while (_roots.size() < _k + rounds) { _roots.push_back(std::sqrt(static_cast<double>(_roots.size()))); }
  const double scale = 0.5 * _settings.gamma / std::sqrt(static_cast<double>(_pi.size()));
  for (std::size_t i = 0; i < rounds; ++i)
  {
    _half_betas[i] = _settings.beta >= 0. ? 0.5 * _settings.beta : scale * _roots[_k + i];
  }
}

void policy::step(const double* losses)
{
  step_one(losses, 1, half_beta(static_cast<double>(_k)));
  ++_k;
}

/// \param losses of each action, `stride` apart
void policy::step_one(const double* losses, std::size_t stride, double half_beta)
{
  const std::size_t n = _pi.size();
  for (std::size_t a = 0; a < n; ++a)
  {
    const double loss = optimistic_loss(losses[a * stride], half_beta, _inverse_counts[a]);
    _log_weights[a] = _settings.decay * _log_weights[a] - _settings.eta * loss;
    if (_pi[a] > 0.)
    {
      _counts[a] += _pi[a];
      _inverse_counts[a] = 1. / _counts[a];
    }
  }

  update_probabilities();
}

void policy::update_probabilities()
{
  const std::size_t n = _pi.size();
  const auto largest = std::max_element(_log_weights.begin(), _log_weights.end());
  const double shift = *largest;
  _leader = largest - _log_weights.begin();
  double total = 1.;
  for (std::size_t a = 0; a < n; ++a)
  {
    _log_weights[a] -= shift;  // relative to the largest, for precision
    if (a == _leader) { continue; }
    _pi[a] = _log_weights[a] > NEGLIGIBLE ? std::exp(_log_weights[a]) : 0.;
    total += _pi[a];
  }
  _pi[_leader] = 1.;
  _leader_alone = total == 1.;
  if (!_leader_alone)
  {
    const double inverse_total = 1. / total;
    for (auto& p : _pi) { p *= inverse_total; }
  }
}

/// Steps through a stretch as if the leader, alone now, stayed alone.
/// \return false, with nothing done, if it does not
bool policy::step_stretch(std::size_t first)
{
  if (!_leader_alone) { return false; }
  const std::size_t n = _pi.size();
  const double* half_betas = &_half_betas[first];
  double leader_losses[STRETCH];
  losses_if_always_played(&_losses[_leader * BLOCK + first], half_betas, _counts[_leader], leader_losses);

  // The others, in order, with the last in the leader's place.
  const auto other = [this, n](std::size_t i) { return i == _leader ? n - 1 : i; };
  for (std::size_t i = 0; i + 1 < n; ++i)
  {
    const std::size_t a = other(i);
    differences_if_never_played(
        &_losses[a * BLOCK + first], half_betas, _inverse_counts[a], leader_losses, &_differences[i * STRETCH]);
    _others[i] = _log_weights[a];  // the leader's is 0
  }
  std::size_t i = 0;
  while (i + 1 < n)
  {
    const bool four = i + 4 < n;
    const double largest = four
        ? step_relative_weights<4>(&_others[i], &_differences[i * STRETCH], _settings.eta, _settings.decay)
        : step_relative_weights<1>(&_others[i], &_differences[i * STRETCH], _settings.eta, _settings.decay);
    if (largest > NEGLIGIBLE) { return false; }
    i += four ? 4 : 1;
  }
  for (i = 0; i + 1 < n; ++i) { _log_weights[other(i)] = _others[i]; }
  _counts[_leader] += STRETCH;
  _inverse_counts[_leader] = 1. / _counts[_leader];
  return true;
}

void policy::replay(double* changes, std::size_t rounds, const loss_map& map)
{
  const std::size_t n = _pi.size();
  _predictions.assign(n, 0.);
  for (std::size_t first = 0; first < rounds; first += BLOCK)
  {
    const std::size_t count = std::min(BLOCK, rounds - first);
    compute_half_betas(count);
    for (std::size_t a = 0; a < n;)
    {
      double* change = changes + a * rounds + first;
      double* losses = &_losses[a * BLOCK];
      const std::size_t together = map.logistic || a + 4 > n ? 1 : 4;
      if (together == 4) { accumulate<4>(change, rounds, losses, &_predictions[a], count, map); }
      else { accumulate_mapped(change, losses, _predictions[a], count, map); }
      for (std::size_t i = 0; i < together; ++i) { std::fill_n(change + i * rounds, count, 0.); }
      a += together;
    }
    std::size_t k = 0;
    while (k < count)
    {
      const std::size_t next = std::min(k + STRETCH, count);
      if (next == k + STRETCH && step_stretch(k)) { k = next; }
      for (; k < next; ++k) { step_one(&_losses[k], BLOCK, _half_betas[k]); }
    }
    _k += count;
  }
}

policy::decayed_rounds policy::decay_over(uint32_t rounds)
{
  const double d = _settings.decay;
  const double h = rounds;
  if (d == 1.) { return {1., h, 0.5 * (h - 1.)}; }
  const auto compute = [d](double h) -> decayed_rounds
  {
    const double left = std::pow(d, h);
    const double mean_age = d / (1. - d) - h * left / (1. - left);
    return {left, (1. - left) / (1. - d), h - 1. - mean_age};
  };
  constexpr std::size_t REMEMBERED = 1024;
  if (rounds >= REMEMBERED) { return compute(h); }
  while (_decayed.size() <= rounds) { _decayed.push_back(compute(static_cast<double>(_decayed.size()))); }
  return _decayed[rounds];
}

double policy::half_beta(double k) const
{
  return 0.5 *
      (_settings.beta >= 0. ? _settings.beta : _settings.gamma * std::sqrt(k / static_cast<double>(_pi.size())));
}

/// Several rounds of the same losses and the same policy at once.
void policy::step_several(const double* losses, uint32_t rounds)
{
  const auto decayed = decay_over(rounds);
  const double half_beta_then = half_beta(static_cast<double>(_k) + decayed.mean);
  for (std::size_t a = 0; a < _pi.size(); ++a)
  {
    const double inverse_count = _pi[a] > 0. ? 1. / (_counts[a] + decayed.mean * _pi[a]) : _inverse_counts[a];
    const double loss = optimistic_loss(losses[a], half_beta_then, inverse_count);
    _log_weights[a] = decayed.left * _log_weights[a] - _settings.eta * decayed.sum * loss;
    if (_pi[a] > 0.)
    {
      _counts[a] += rounds * _pi[a];
      _inverse_counts[a] = 1. / _counts[a];
    }
  }
  update_probabilities();
  _k += rounds;
}

/// For how many rounds the leader, alone now, stays ahead: as it is played its bonus shrinks, and the others' do not.
uint32_t policy::rounds_alike(const double* losses, uint32_t at_most) const
{
  if (!_leader_alone) { return 1; }
  double alike = at_most;
  const double bonus = half_beta(static_cast<double>(_k));
  for (std::size_t a = 0; a < _pi.size(); ++a)
  {
    if (a == _leader) { continue; }
    const double gap = losses[_leader] - optimistic_loss(losses[a], bonus, _inverse_counts[a]);
    if (gap > 0.) { alike = std::min(alike, bonus / gap - _counts[_leader]); }
  }
  return alike > 1. ? static_cast<uint32_t>(alike) : 1;
}

void policy::replay(double* changes, const segments& past, const loss_map& map)
{
  const std::size_t n = _pi.size();
  const std::size_t size = past.size();
  const auto& starts = past.starts();
  std::size_t long_ones = 0;
  for (std::size_t s = 0; s < size; ++s) { long_ones += starts[s + 1] - starts[s] > 1 ? 1 : 0; }
  std::size_t spare = past.budget() - size;

  _predictions.assign(n, 0.);
  for (std::size_t s = 0; s < size; ++s)
  {
    for (std::size_t a = 0; a < n; ++a)
    {
      _predictions[a] += changes[a * size + s];
      changes[a * size + s] = 0.;
      _losses[a] = map.loss(_predictions[a]);
    }
    uint32_t left = starts[s + 1] - starts[s];
    if (left == 1)
    {
      step(_losses.data());
      continue;
    }
    std::size_t steps = 1 + spare / long_ones;
    spare -= steps - 1;
    --long_ones;
    while (left > 0)
    {
      const auto least = static_cast<uint32_t>((left + steps - 1) / steps);
      const uint32_t rounds = std::min(left, std::max(least, rounds_alike(_losses.data(), left)));
      step_several(_losses.data(), rounds);
      left -= rounds;
      --steps;
    }
    spare += steps;
  }
}
}  // namespace opo_cmab
