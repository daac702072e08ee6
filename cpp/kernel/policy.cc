#include "kernel/policy.h"

#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
constexpr double NEGLIGIBLE = -40.;
constexpr std::size_t BLOCK = 256;  // rounds whose losses are computed at once
constexpr int STRETCH = 16;         // rounds that are stepped through at once

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
  _all.start(actions);
  _half_betas.resize(BLOCK);
  _live_losses.resize(actions * STRETCH);
  _others.resize(actions);
  _differences.resize(actions * STRETCH);
  _losses.resize(BLOCK * actions);
}

void policy::compute_half_betas(std::size_t rounds)
{
  while (_roots.size() < _k + rounds) { _roots.push_back(std::sqrt(static_cast<double>(_roots.size()))); }
  const double scale = 0.5 * _settings.gamma / std::sqrt(static_cast<double>(_all.pi.size()));
  for (std::size_t i = 0; i < rounds; ++i)
  {
    _half_betas[i] = _settings.beta >= 0. ? 0.5 * _settings.beta : scale * _roots[_k + i];
  }
}

void policy::step(const double* losses)
{
  _all.step(losses, 1, half_beta(static_cast<double>(_k)), _settings);
  ++_k;
}

void policy::state::start(std::size_t actions)
{
  pi.assign(actions, 1. / static_cast<double>(actions));
  log_weights.assign(actions, 0.);
  counts.assign(actions, 1.);
  inverse_counts.assign(actions, 1.);
  leader = 0;
  leader_alone = actions == 1;
}

void policy::state::copy(std::size_t action, const state& from, std::size_t action_there)
{
  pi[action] = from.pi[action_there];
  log_weights[action] = from.log_weights[action_there];
  counts[action] = from.counts[action_there];
  inverse_counts[action] = from.inverse_counts[action_there];
}

double policy::state::step(const double* losses, std::size_t stride, double half_beta, const policy_settings& settings)
{
  for (std::size_t a = 0; a < pi.size(); ++a)
  {
    const double loss = optimistic_loss(losses[a * stride], half_beta, inverse_counts[a]);
    log_weights[a] = settings.decay * log_weights[a] - settings.eta * loss;
    if (pi[a] > 0.)
    {
      counts[a] += pi[a];
      inverse_counts[a] = 1. / counts[a];
    }
  }
  return update_probabilities();
}

double policy::state::update_probabilities()
{
  double largest = log_weights[0];
  for (const auto w : log_weights) { largest = w > largest ? w : largest; }
  double total = 0.;
  for (std::size_t a = 0; a < pi.size(); ++a)
  {
    const double w = log_weights[a] - largest;  // relative to the largest, for precision
    log_weights[a] = w;
    double p = 0.;
    if (w > NEGLIGIBLE)
    {
      if (w == 0.) { leader = a; }
      p = w == 0. ? 1. : std::exp(w);
    }
    pi[a] = p;
    total += p;
  }
  leader_alone = total == 1.;
  if (!leader_alone)
  {
    const double inverse_total = 1. / total;
    for (auto& p : pi) { p *= inverse_total; }
  }
  return largest;
}

/// Steps through a stretch as if the actions that are live now stayed the only ones.
/// \return false, with nothing done, if they do not, or if too many are live for this to be worth while
bool policy::step_stretch(std::size_t first)
{
  const std::size_t n = _all.pi.size();
  const double* half_betas = &_half_betas[first];
  _live_actions.clear();
  _other_actions.clear();
  for (std::size_t a = 0; a < n; ++a) { (_all.pi[a] > 0. ? _live_actions : _other_actions).push_back(a); }
  const std::size_t live = _live_actions.size();
  if (live > 1 && 2 * live > n) { return false; }

  // What the largest log weight loses in each round, over eta: the others' losses count relative to it.
  double leader_losses[STRETCH];
  _live.start(live);
  for (std::size_t i = 0; i < live; ++i) { _live.copy(i, _all, _live_actions[i]); }
  if (live == 1)
  {
    losses_if_always_played(&_losses[_live_actions[0] * BLOCK + first], half_betas, _live.counts[0], leader_losses);
    _live.counts[0] += STRETCH;
    _live.inverse_counts[0] = 1. / _live.counts[0];
  }
  else
  {
    for (std::size_t i = 0; i < live; ++i)
    {
      std::copy_n(&_losses[_live_actions[i] * BLOCK + first], STRETCH, &_live_losses[i * STRETCH]);
    }
    for (int k = 0; k < STRETCH; ++k)
    {
      leader_losses[k] = -_live.step(&_live_losses[k], STRETCH, half_betas[k], _settings) / _settings.eta;
    }
  }

  const std::size_t others = _other_actions.size();
  for (std::size_t i = 0; i < others; ++i)
  {
    const std::size_t a = _other_actions[i];
    differences_if_never_played(
        &_losses[a * BLOCK + first], half_betas, _all.inverse_counts[a], leader_losses, &_differences[i * STRETCH]);
    _others[i] = _all.log_weights[a];
  }
  std::size_t i = 0;
  while (i < others)
  {
    const bool four = i + 4 <= others;
    const double largest = four
        ? step_relative_weights<4>(&_others[i], &_differences[i * STRETCH], _settings.eta, _settings.decay)
        : step_relative_weights<1>(&_others[i], &_differences[i * STRETCH], _settings.eta, _settings.decay);
    if (largest > NEGLIGIBLE) { return false; }
    i += four ? 4 : 1;
  }
  for (i = 0; i < others; ++i) { _all.log_weights[_other_actions[i]] = _others[i]; }
  for (i = 0; i < live; ++i) { _all.copy(_live_actions[i], _live, i); }
  _k += STRETCH;
  return true;
}

void policy::observe(const step_observer& observer, const double* losses, std::size_t stride, uint32_t rounds)
{
  const double mean = rounds > 1 ? decay_over(rounds).mean : 0.;
  const double half_beta_then = half_beta(static_cast<double>(_k) + mean);
  std::vector<double> own_losses(_all.pi.size());
  std::vector<double> bonuses(_all.pi.size());
  for (std::size_t a = 0; a < _all.pi.size(); ++a)
  {
    own_losses[a] = losses[a * stride];
    bonuses[a] = std::min(1., half_beta_then / (_all.counts[a] + mean * _all.pi[a]));
  }
  observer(_k - 1, rounds, own_losses.data(), bonuses.data(), _all.pi.data());
}

void policy::replay(double* changes, std::size_t rounds, const loss_map& map, const step_observer& observer)
{
  const std::size_t n = _all.pi.size();
  _predictions.assign(n, 0.);
  for (std::size_t first = 0; first < rounds; first += BLOCK)
  {
    const std::size_t count = std::min(BLOCK, rounds - first);
    compute_half_betas(count);
    for (std::size_t a = 0; a < n;)
    {
      double* change = changes + a * rounds + first;
      double* losses = &_losses[a * BLOCK];
      const std::size_t together = map.logistic || a + 2 > n ? 1 : a + 4 > n ? 2 : 4;
      if (together == 4) { accumulate<4>(change, rounds, losses, &_predictions[a], count, map); }
      else if (together == 2) { accumulate<2>(change, rounds, losses, &_predictions[a], count, map); }
      else { accumulate_mapped(change, losses, _predictions[a], count, map); }
      for (std::size_t i = 0; i < together; ++i) { std::fill_n(change + i * rounds, count, 0.); }
      a += together;
    }
    std::size_t k = 0;
    while (k < count)
    {
      const std::size_t next = std::min(k + STRETCH, count);
      if (next == k + STRETCH && !observer && step_stretch(k)) { k = next; }
      for (; k < next; ++k)
      {
        if (observer) { observe(observer, &_losses[k], BLOCK, 1); }
        _all.step(&_losses[k], BLOCK, _half_betas[k], _settings);
        ++_k;
      }
    }
  }
}

policy::decayed_rounds policy::decay_over(uint32_t rounds)
{
  const double d = _settings.decay;
  const double h = rounds;
  if (h * (1. - d) < 1e-6) { return {1., h, 0.5 * (h - 1.)}; }  // the formulas below would cancel
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
      (_settings.beta >= 0. ? _settings.beta : _settings.gamma * std::sqrt(k / static_cast<double>(_all.pi.size())));
}

/// Several rounds of the same losses and the same policy at once.
void policy::step_several(const double* losses, uint32_t rounds)
{
  const auto decayed = decay_over(rounds);
  const double half_beta_then = half_beta(static_cast<double>(_k) + decayed.mean);
  for (std::size_t a = 0; a < _all.pi.size(); ++a)
  {
    const double inverse_count =
        _all.pi[a] > 0. ? 1. / (_all.counts[a] + decayed.mean * _all.pi[a]) : _all.inverse_counts[a];
    const double loss = optimistic_loss(losses[a], half_beta_then, inverse_count);
    _all.log_weights[a] = decayed.left * _all.log_weights[a] - _settings.eta * decayed.sum * loss;
    if (_all.pi[a] > 0.)
    {
      _all.counts[a] += rounds * _all.pi[a];
      _all.inverse_counts[a] = 1. / _all.counts[a];
    }
  }
  _all.update_probabilities();
  _k += rounds;
}

/// For how many rounds the leader, alone now, stays ahead: as it is played its bonus shrinks, and the others' do not.
uint32_t policy::rounds_alike(const double* losses, uint32_t at_most) const
{
  if (!_all.leader_alone) { return 1; }
  double alike = at_most;
  const double bonus = half_beta(static_cast<double>(_k));
  for (std::size_t a = 0; a < _all.pi.size(); ++a)
  {
    if (a == _all.leader) { continue; }
    const double gap = losses[_all.leader] - optimistic_loss(losses[a], bonus, _all.inverse_counts[a]);
    if (gap > 0.) { alike = std::min(alike, bonus / gap - _all.counts[_all.leader]); }
  }
  return alike > 1. ? static_cast<uint32_t>(alike) : 1;
}

void policy::replay(double* changes, const segments& past, const loss_map& map, const step_observer& observer)
{
  const std::size_t n = _all.pi.size();
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
      if (observer) { observe(observer, _losses.data(), 1, 1); }
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
      if (observer) { observe(observer, _losses.data(), 1, rounds); }
      step_several(_losses.data(), rounds);
      left -= rounds;
      --steps;
    }
    spare += steps;
  }
}
}  // namespace opo_cmab
