#include "kernel/policy.h"

#include "kernel/step.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

constexpr std::size_t BLOCK = 256;   // rounds whose losses are computed at once
constexpr std::size_t STRETCH = 16;  // rounds that are stepped through at once

std::size_t up_to_lanes(std::size_t count) { return (count + LANES - 1) / LANES * LANES; }

/// An array of a policy::state, by lanes: in memory, or a copy in registers.
class in_memory
{
public:
  explicit in_memory(double* values) : _values(values) {}
  OPO_CMAB_INLINE lanes get(std::size_t i) const { return load(_values + i * LANES); }
  OPO_CMAB_INLINE void set(std::size_t i, lanes x) { store(_values + i * LANES, x); }

private:
  double* _values;
};

template <std::size_t SIZE>
class in_registers
{
public:
  OPO_CMAB_INLINE explicit in_registers(const double* values)
  {
    for (std::size_t i = 0; i < SIZE; ++i) { _values[i] = load(values + i * LANES); }
  }
  OPO_CMAB_INLINE lanes get(std::size_t i) const { return _values[i]; }
  OPO_CMAB_INLINE void set(std::size_t i, lanes x) { _values[i] = x; }
  OPO_CMAB_INLINE void write(double* values) const
  {
    for (std::size_t i = 0; i < SIZE; ++i) { store(values + i * LANES, _values[i]); }
  }

private:
  lanes _values[SIZE];
};

/// Rounds to be stepped through.
class round_input
{
public:
  const double* losses;      ///< of each round, of each action
  const double* half_betas;  ///< of each round
  std::size_t rounds;
  const step_factors& factors;
  double* drops;  ///< what the largest log weight loses in each round, before all become relative to it: set
};

/// \tparam SEVERAL a step is several rounds. If it is one, its bonuses need not wait for its probabilities, which are
///         still being computed
/// \param size of the arrays, in lanes
/// \return the sum of the weights relative to the largest
template <bool SEVERAL, typename Array>
OPO_CMAB_INLINE double step_arrays(
    Array& pi, Array& log_weights, Array& counts, const Array& real, std::size_t size, const round_input& input)
{
  const lanes none = {};
  const step_factors f = input.factors;
  const double* losses = input.losses;
  double total = 0.;
  for (std::size_t k = 0; k < input.rounds; ++k)
  {
    lanes top = none - HUGE_VAL;
    for (std::size_t i = 0; i < size; ++i)
    {
      const lanes p = pi.get(i);
      const lanes count = counts.get(i);
      const lanes bonus = input.half_betas[k] / (SEVERAL ? count + f.mean * p : count);
      const lanes loss = optimistic_loss(load(losses + i * LANES), bonus);
      const lanes w = f.decay * log_weights.get(i) - f.eta * loss;
      log_weights.set(i, w);
      counts.set(i, count + (SEVERAL ? f.rounds * p : p));
      top = max(top, w);
    }
    const double drop = -largest(top);
    lanes totals = none;
    for (std::size_t i = 0; i < size; ++i)
    {
      const lanes w = log_weights.get(i) + drop;  // relative to the largest, for precision
      const lanes weight = exp_of_negative(max(w, none + NEGLIGIBLE));
      const lanes p = w > NEGLIGIBLE ? weight : none;
      log_weights.set(i, w);
      pi.set(i, p);
      totals += p * real.get(i);
    }
    total = sum(totals);
    for (std::size_t i = 0; i < size; ++i) { pi.set(i, pi.get(i) * (1. / total)); }
    input.drops[k] = drop;
    losses += size * LANES;
  }
  return total;
}

/// The same for few actions, which stay in registers all the time, and single rounds.
template <std::size_t SIZE>
OPO_CMAB_INLINE double step_registers(
    double* pi, double* log_weights, double* counts, double* real, const round_input& input)
{
  in_registers<SIZE> p(pi);
  in_registers<SIZE> w(log_weights);
  in_registers<SIZE> c(counts);
  const in_registers<SIZE> r(real);
  const double total = step_arrays<false>(p, w, c, r, SIZE, input);
  p.write(pi);
  w.write(log_weights);
  c.write(counts);
  return total;
}

/// Steps the arrays of a policy::state.
/// \return the sum of the weights relative to the largest
OPO_CMAB_VECTORIZED
double step_actions(
    double* pi, double* log_weights, double* counts, double* real, std::size_t size, const round_input& input)
{
  const bool several = input.factors.rounds > 1.;
  if (!several && size == LANES) { return step_registers<1>(pi, log_weights, counts, real, input); }
  if (!several && size == 2 * LANES) { return step_registers<2>(pi, log_weights, counts, real, input); }
  if (!several && size == 3 * LANES) { return step_registers<3>(pi, log_weights, counts, real, input); }
  in_memory p(pi);
  in_memory w(log_weights);
  in_memory c(counts);
  const in_memory r(real);
  return several ? step_arrays<true>(p, w, c, r, size / LANES, input)
                 : step_arrays<false>(p, w, c, r, size / LANES, input);
}

/// What an action that is always played loses in each round of a stretch.
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

/// A stretch of rounds as the actions see it that are not played in it.
class stretch_input
{
public:
  const double* losses;      ///< of each action, BLOCK apart, of each round
  const double* half_betas;  ///< of each round
  const double* drops;       ///< of each round: what the largest log weight loses
  const double* powers;      ///< of decay: what is left of each round at the end
  double eta;
  double decay;
};

/// Whether an action of log weight w, not live, becomes live on the way through a stretch.
OPO_CMAB_INLINE bool becomes_live(const stretch_input& s, const double* losses, double inverse_count, double w)
{
  for (std::size_t k = 0; k < STRETCH; ++k)
  {
    w = s.decay * w - (s.eta * optimistic_loss(losses[k], s.half_betas[k] * inverse_count) - s.drops[k]);
    if (w > NEGLIGIBLE) { return true; }
  }
  return false;
}

/// Steps actions that are not played through a stretch.
/// \param log_weights relative to the largest, before
/// \param result after
/// \param live set for those that became live on the way
/// \return whether there are none
OPO_CMAB_VECTORIZED
bool step_unplayed(const stretch_input& s, const std::vector<std::size_t>& actions, const double* counts,
    const double* log_weights, double* result, char* live)
{
  lanes power_sum = {};
  for (std::size_t k = 0; k < STRETCH; k += LANES) { power_sum += load(s.powers + k); }
  const double powers = sum(power_sum);
  const double left = s.decay * s.powers[0];
  bool none_live = true;
  for (const auto a : actions)
  {
    const double* losses = s.losses + a * BLOCK;
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
    // If all differences were the least, the weight would move from where it is to where it ends without turning.
    const double bound = left * log_weights[a] + powers * largest(-least);
    if (bound > NEGLIGIBLE && becomes_live(s, losses, inverse_count, log_weights[a]))
    {
      live[a] = 1;
      none_live = false;
    }
  }
  return none_live;
}

/// Turns the changes of some actions from predictor to predictor into predictions. Several at once: each is a chain of
/// additions, which would wait for one another.
template <std::size_t ACTIONS>
void accumulate(const double* changes, std::size_t stride, double* values, double* predictions, std::size_t rounds)
{
  double prediction[ACTIONS];
  std::copy_n(predictions, ACTIONS, prediction);
  for (std::size_t k = 0; k < rounds; ++k)
  {
    for (std::size_t a = 0; a < ACTIONS; ++a)
    {
      prediction[a] += changes[a * stride + k];
      values[a * BLOCK + k] = prediction[a];
    }
  }
  std::copy_n(prediction, ACTIONS, predictions);
}

/// sigmoid(margin)
OPO_CMAB_INLINE lanes sigmoid(lanes margin)
{
  const lanes zero = {};
  const lanes e = exp_of_negative(max(margin > 0. ? -margin : margin, zero + NEGLIGIBLE));
  return (margin > 0. ? zero + 1. : e) / (1. + e);
}

template <bool LOGISTIC>
OPO_CMAB_INLINE lanes to_loss(lanes prediction, const loss_map::piece& piece)
{
  return piece.offset + piece.scale * (LOGISTIC ? sigmoid(prediction) : prediction);
}

template <bool LOGISTIC>
OPO_CMAB_INLINE void map_piece(double* values, std::size_t size, const loss_map::piece& piece)
{
  std::size_t i = 0;
  for (; i + LANES <= size; i += LANES) { store(values + i, to_loss<LOGISTIC>(load(values + i), piece)); }
  if (i == size) { return; }
  double rest[LANES] = {};
  std::copy_n(values + i, size - i, rest);
  store(rest, to_loss<LOGISTIC>(load(rest), piece));
  std::copy_n(rest, size - i, values + i);
}

/// Turns the predictions of one action into losses.
/// \param first the round of the first
OPO_CMAB_VECTORIZED
void to_losses(double* values, std::size_t size, std::size_t first, const loss_map& map)
{
  const auto* piece = map.pieces.data();
  for (std::size_t i = 0; i < size;)
  {
    while (piece->end <= first + i) { ++piece; }
    const std::size_t end = std::min(size, piece->end - first);
    if (map.logistic) { map_piece<true>(values + i, end - i, *piece); }
    else { map_piece<false>(values + i, end - i, *piece); }
    i = end;
  }
}
}  // namespace

namespace opo_cmab
{
void policy::start(const policy_settings& settings, std::size_t actions)
{
  if (settings.decay != _settings.decay) { _decayed.clear(); }
  _settings = settings;
  _k = 1;
  _all.start(actions);
  _half_betas.resize(BLOCK);
  _losses.resize(BLOCK * actions);
  _padded.resize(up_to_lanes(actions));
  _is_active.resize(actions);
  _active_losses.resize(STRETCH * up_to_lanes(actions));
  _log_weights.resize(actions);
  _powers.resize(STRETCH);
  double power = 1.;
  for (std::size_t k = STRETCH; k-- > 0; power *= settings.decay) { _powers[k] = power; }
}

void policy::compute_half_betas(std::size_t rounds)
{
  while (_roots.size() < _k + rounds) { _roots.push_back(std::sqrt(static_cast<double>(_roots.size()))); }
  const double scale = 0.5 * _settings.gamma / std::sqrt(static_cast<double>(_all.actions));
  const bool constant = _settings.beta >= 0.;
  const double* roots = _roots.data() + _k;
  for (std::size_t i = 0; i < rounds; ++i) { _half_betas[i] = constant ? 0.5 * _settings.beta : scale * roots[i]; }
}

/// \param losses of each action, `stride` apart
const double* policy::padded(const double* losses, std::size_t stride)
{
  for (std::size_t a = 0; a < _padded.size(); ++a) { _padded[a] = losses[(a < _all.actions ? a : 0) * stride]; }
  return _padded.data();
}

void policy::step(const double* losses)
{
  step_round(padded(losses, 1), half_beta(static_cast<double>(_k)), {_settings.decay, _settings.eta});
}

void policy::step_round(const double* losses, double half_beta, const step_factors& factors)
{
  double drop = 0.;
  _all.step(losses, &half_beta, 1, factors, &drop);
  _k += static_cast<std::size_t>(factors.rounds);
}

void policy::state::resize(std::size_t count)
{
  if (count == actions) { return; }
  actions = count;
  const std::size_t size = up_to_lanes(count);
  pi.resize(size);
  log_weights.resize(size);
  counts.resize(size);
  _real.assign(size, 0.);
  std::fill_n(_real.begin(), count, 1.);
}

void policy::state::start(std::size_t count)
{
  resize(count);
  std::fill(pi.begin(), pi.end(), 1. / static_cast<double>(count));
  std::fill(log_weights.begin(), log_weights.end(), 0.);
  std::fill(counts.begin(), counts.end(), 1.);
  one_live = count == 1;
}

void policy::state::start(const state& from, const std::vector<std::size_t>& those)
{
  resize(those.size());
  for (std::size_t i = 0; i < pi.size(); ++i) { copy(i, from, those[i < actions ? i : 0]); }
}

void policy::state::copy(std::size_t action, const state& from, std::size_t action_there)
{
  pi[action] = from.pi[action_there];
  log_weights[action] = from.log_weights[action_there];
  counts[action] = from.counts[action_there];
}

void policy::state::step(
    const double* losses, const double* half_betas, std::size_t rounds, const step_factors& factors, double* drops)
{
  const double total = step_actions(pi.data(), log_weights.data(), counts.data(), _real.data(), pi.size(),
      {losses, half_betas, rounds, factors, drops});
  one_live = total == 1.;
}

/// Steps through a stretch of rounds: the live actions round by round, the others in one go.
void policy::step_stretch(std::size_t first)
{
  double drops[STRETCH];  // what the largest log weight loses in each round
  const stretch_input input = {
      &_losses[first], &_half_betas[first], drops, _powers.data(), _settings.eta, _settings.decay};
  for (std::size_t a = 0; a < _all.actions; ++a) { _is_active[a] = _all.pi[a] > 0. ? 1 : 0; }
  do {
    _active.clear();
    _others.clear();
    for (std::size_t a = 0; a < _all.actions; ++a) { (_is_active[a] != 0 ? _active : _others).push_back(a); }
    step_active(first, drops);
  } while (!step_unplayed(
      input, _others, _all.counts.data(), _all.log_weights.data(), _log_weights.data(), _is_active.data()));

  for (const auto a : _others) { _all.log_weights[a] = _log_weights[a]; }
  if (_active.size() == 1) { _all.counts[_active[0]] += static_cast<double>(STRETCH); }
  else
  {
    for (std::size_t i = 0; i < _active.size(); ++i) { _all.copy(_active[i], _active_state, i); }
  }
  for (std::size_t a = _all.actions; a < _all.pi.size(); ++a) { _all.copy(a, _all, 0); }
  _k += STRETCH;
}

void policy::step_active(std::size_t first, double* drops)
{
  const double* half_betas = &_half_betas[first];
  if (_active.size() == 1)
  {
    const std::size_t a = _active[0];
    drops_if_always_played(&_losses[a * BLOCK + first], half_betas, _all.counts[a], _settings.eta, drops);
    return;
  }
  _active_state.start(_all, _active);
  const std::size_t size = _active_state.pi.size();
  for (std::size_t i = 0; i < size; ++i)
  {
    const double* losses = &_losses[_active[i < _active.size() ? i : 0] * BLOCK + first];
    for (std::size_t k = 0; k < STRETCH; ++k) { _active_losses[k * size + i] = losses[k]; }
  }
  _active_state.step(_active_losses.data(), half_betas, STRETCH, {_settings.decay, _settings.eta}, drops);
}

void policy::observe(const step_observer& observer, const double* losses, uint32_t rounds)
{
  const double mean = rounds > 1 ? decay_over(rounds).mean : 0.;
  const double half_beta_then = half_beta(static_cast<double>(_k) + mean);
  std::vector<double> bonuses(_all.actions);
  for (std::size_t a = 0; a < _all.actions; ++a)
  {
    bonuses[a] = std::min(1., half_beta_then / (_all.counts[a] + mean * _all.pi[a]));
  }
  observer(_k - 1, rounds, losses, bonuses.data(), _all.pi.data());
}

void policy::replay(double* changes, std::size_t rounds, const loss_map& map, const step_observer& observer)
{
  const std::size_t n = _all.actions;
  _predictions.assign(n, 0.);
  for (std::size_t first = 0; first < rounds; first += BLOCK)
  {
    const std::size_t count = std::min(BLOCK, rounds - first);
    compute_half_betas(count);
    for (std::size_t a = 0; a < n;)
    {
      double* change = changes + a * rounds + first;
      double* losses = &_losses[a * BLOCK];
      const std::size_t together = a + 2 > n ? 1 : a + 4 > n ? 2 : 4;
      if (together == 4) { accumulate<4>(change, rounds, losses, &_predictions[a], count); }
      else if (together == 2) { accumulate<2>(change, rounds, losses, &_predictions[a], count); }
      else { accumulate<1>(change, rounds, losses, &_predictions[a], count); }
      for (std::size_t i = 0; i < together; ++i)
      {
        to_losses(losses + i * BLOCK, count, first, map);
        std::fill_n(change + i * rounds, count, 0.);
      }
      a += together;
    }
    std::size_t k = 0;
    while (k < count)
    {
      if (k + STRETCH <= count && !observer)
      {
        step_stretch(k);
        k += STRETCH;
        continue;
      }
      const double* losses = padded(&_losses[k], BLOCK);
      if (observer) { observe(observer, losses, 1); }
      step_round(losses, _half_betas[k], {_settings.decay, _settings.eta});
      ++k;
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
      (_settings.beta >= 0. ? _settings.beta : _settings.gamma * std::sqrt(k / static_cast<double>(_all.actions)));
}

/// Several rounds of the same losses and the same policy at once.
void policy::step_several(const double* losses, uint32_t rounds)
{
  const auto decayed = decay_over(rounds);
  const double half_beta_then = half_beta(static_cast<double>(_k) + decayed.mean);
  step_round(padded(losses, 1), half_beta_then,
      {decayed.left, _settings.eta * decayed.sum, static_cast<double>(rounds), decayed.mean});
}

/// For how many rounds the leader, alone now, stays ahead: as it is played its bonus shrinks, and the others' do not.
uint32_t policy::rounds_alike(const double* losses, uint32_t at_most) const
{
  if (!_all.one_live) { return 1; }
  const auto leader = static_cast<std::size_t>(std::max_element(_all.pi.begin(), _all.pi.end()) - _all.pi.begin());
  double alike = at_most;
  const double bonus = half_beta(static_cast<double>(_k));
  for (std::size_t a = 0; a < _all.actions; ++a)
  {
    if (a == leader) { continue; }
    const double gap = losses[leader] - optimistic_loss(losses[a], bonus / _all.counts[a]);
    if (gap > 0.) { alike = std::min(alike, bonus / gap - _all.counts[leader]); }
  }
  return alike > 1. ? static_cast<uint32_t>(alike) : 1;
}

void policy::replay(double* changes, const segments& past, const loss_map& map, const step_observer& observer)
{
  const std::size_t n = _all.actions;
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
      _losses[a] = _predictions[a];
      to_losses(&_losses[a], 1, s, map);
    }
    uint32_t left = starts[s + 1] - starts[s];
    if (left == 1)
    {
      if (observer) { observe(observer, _losses.data(), 1); }
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
      if (observer) { observe(observer, _losses.data(), rounds); }
      step_several(_losses.data(), rounds);
      left -= rounds;
      --steps;
    }
    spare += steps;
  }
}
}  // namespace opo_cmab
