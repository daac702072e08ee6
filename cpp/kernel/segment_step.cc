#include "kernel/segment_step.h"

#include "kernel/optimistic_loss.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

// How well we solve: until a Newton step would move less than 3% of the plays, and grow no share of more than exp(-3)
// by more than a factor of e. More changes decisions by less than the segments themselves do.
constexpr double TOLERANCE = 0.03;
constexpr double LARGE_SHARE = -3.;
constexpr int MOST_ITERATIONS = 12;
constexpr double LEAST_LOG_SHARE = -60.;
constexpr double LEAST_FIRST_LOG_SHARE = -40.;

/// \param unplayed set: of each action, its log-weight if it is never played in the segment
/// \param played set: if it is always played
/// \return the largest of the latter
OPO_CMAB_VECTORIZED
double bound_log_weights(const segment_factors& f, const double* losses, const double* log_weights,
    const double* counts, std::size_t size, double* unplayed, double* played)
{
  const lanes none = {};
  lanes top = none - HUGE_VAL;
  for (std::size_t i = 0; i < size; i += LANES)
  {
    const lanes decayed = f.left * load(log_weights + i);
    const lanes count = load(counts + i);
    const lanes loss = load(losses + i);
    const lanes low = decayed - f.eta * optimistic_loss(loss, f.half_beta / (count + f.before * f.rounds));
    store(unplayed + i, decayed - f.eta * optimistic_loss(loss, f.half_beta / count));
    store(played + i, low);
    top = max(top, low);
  }
  return largest(top);
}

/// The candidates for being played, in arrays up to a multiple of LANES.
class candidate_arrays
{
public:
  double* losses;
  double* decayed;  ///< decay^h times the log-weight
  double* counts;
  double* real;        ///< 1, or 0 beyond the candidates
  double* log_shares;  ///< log(x(a) / h): a first guess
  double* plays;       ///< x(a): set
  double* residuals;
  double* inverse_slopes;
  std::size_t size;
};

/// Finds the plays by Newton's method: of each action log(x(a) / h) - w(a) must be the same, the level.
OPO_CMAB_VECTORIZED
void solve_plays(const segment_factors& f, const candidate_arrays& c)
{
  const lanes none = {};
  for (int iteration = 1;; ++iteration)
  {
    lanes reached = none;
    lanes gains = none;
    for (std::size_t i = 0; i < c.size; i += LANES)
    {
      const lanes log_share = load(c.log_shares + i);
      const lanes x = f.rounds * load(c.real + i) * exp_of_negative(log_share);
      const lanes inverse_count = 1. / (load(c.counts + i) + f.before * x);
      const lanes bonus = f.half_beta * inverse_count;
      const lanes loss = load(c.losses + i);
      const lanes rest = loss - bonus;
      const lanes bend = (f.eta * f.before) * (bonus * inverse_count) * x;
      const lanes unclipped = bonus < 1. ? (rest > 0. ? (rest < 1. ? bend : none) : none) : none;
      const lanes residual = log_share + f.eta * optimistic_loss(loss, bonus) - load(c.decayed + i);
      const lanes inverse_slope = 1. / (1. + unclipped);
      const lanes gain = x * inverse_slope;
      reached += x - gain * residual;
      gains += gain;
      store(c.plays + i, x);
      store(c.residuals + i, residual);
      store(c.inverse_slopes + i, inverse_slope);
    }
    const double level = (f.rounds - sum(reached)) / sum(gains);
    lanes moves = none;
    for (std::size_t i = 0; i < c.size; i += LANES)
    {
      const lanes log_share = load(c.log_shares + i);
      const lanes move = (level - load(c.residuals + i)) * load(c.inverse_slopes + i);
      const lanes moved = load(c.plays + i) * (move > 0. ? move : -move);
      const lanes large = move > 1. ? (log_share + move > LARGE_SHARE ? none + f.rounds : none) : none;
      moves += moved + large * load(c.real + i);
      store(c.residuals + i, move);
      const lanes damped = move > 0. ? move / (1. + 0.25 * move) : move;
      store(c.log_shares + i, min(max(log_share + damped, none + LEAST_LOG_SHARE), none));
    }
    if (sum(moves) >= TOLERANCE * f.rounds && iteration < MOST_ITERATIONS) { continue; }
    lanes totals = none;
    for (std::size_t i = 0; i < c.size; i += LANES)
    {
      const lanes x = load(c.plays + i) * max(1. + load(c.residuals + i), none);  // the last step, in x
      store(c.plays + i, x);
      totals += x;
    }
    const double scale = f.rounds / sum(totals);
    for (std::size_t i = 0; i < c.size; i += LANES) { store(c.plays + i, load(c.plays + i) * scale); }
    return;
  }
}

/// Makes the step, the plays being known.
OPO_CMAB_VECTORIZED
void play(const segment_factors& f, const double* losses, const double* plays, std::size_t size, double* log_weights,
    double* counts, double* pi)
{
  const lanes none = {};
  const double share = 1. / f.rounds;
  lanes top = none - HUGE_VAL;
  for (std::size_t i = 0; i < size; i += LANES)
  {
    const lanes x = load(plays + i);
    const lanes count = load(counts + i);
    const lanes loss = optimistic_loss(load(losses + i), f.half_beta / (count + f.before * x));
    const lanes w = f.left * load(log_weights + i) - f.eta * loss;
    store(log_weights + i, w);
    store(counts + i, count + x);
    store(pi + i, share * x);
    top = max(top, w);
  }
  const double highest = largest(top);
  for (std::size_t i = 0; i < size; i += LANES) { store(log_weights + i, load(log_weights + i) - highest); }
}
}  // namespace

namespace opo_cmab
{
void segment_step::start(const policy_settings& settings, std::size_t actions)
{
  if (settings.decay != _settings.decay) { _decayed.clear(); }
  _settings = settings;
  const std::size_t size = up_to_lanes(actions);
  _plays.resize(size);
  _unplayed.resize(size);
  _played.resize(size);
  _arrays.resize(8 * size);
}

decayed_rounds segment_step::decay_over(uint32_t rounds)
{
  const double d = _settings.decay;
  const auto compute = [d](double h) -> decayed_rounds
  {
    if (h * (1. - d) < 1e-6) { return {1., h, 0.5 * (h - 1.)}; }  // the formulas below would cancel
    const double left = std::pow(d, h);
    const double mean_age = d / (1. - d) - h * left / (1. - left);
    return {left, (1. - left) / (1. - d), h - 1. - mean_age};
  };
  constexpr std::size_t REMEMBERED = 1024;
  if (rounds >= REMEMBERED) { return compute(rounds); }
  while (_decayed.size() <= rounds) { _decayed.push_back(compute(static_cast<double>(_decayed.size()))); }
  return _decayed[rounds];
}

void segment_step::step(recursion& all, const double* losses, double k, uint32_t rounds)
{
  const auto decayed = decay_over(rounds);
  _factors.rounds = rounds;
  _factors.left = decayed.left;
  _factors.eta = _settings.eta * decayed.sum;
  _factors.half_beta = _settings.half_beta(k + decayed.mean, all.actions);
  _factors.before = decayed.mean / _factors.rounds;
  find_plays(all, losses);
  play(_factors, losses, _plays.data(), all.pi.size(), all.log_weights.data(), all.counts.data(), all.pi.data());
}

void segment_step::find_plays(const recursion& all, const double* losses)
{
  const double top = bound_log_weights(
      _factors, losses, all.log_weights.data(), all.counts.data(), all.pi.size(), _unplayed.data(), _played.data());
  _candidates.clear();
  for (std::size_t a = 0; a < all.actions; ++a)
  {
    if (_unplayed[a] > top + NEGLIGIBLE) { _candidates.push_back(a); }
  }
  std::fill(_plays.begin(), _plays.end(), 0.);
  if (_candidates.size() == 1) { _plays[_candidates[0]] = _factors.rounds; }
  else
  {
    const std::size_t count = _candidates.size();
    const std::size_t size = up_to_lanes(count);
    double* room = _arrays.data();
    const auto next = [&room, size]
    {
      room += size;
      return room - size;
    };
    const candidate_arrays c = {next(), next(), next(), next(), next(), next(), next(), next(), size};
    double top_weight = -HUGE_VAL;
    double top_played = -HUGE_VAL;
    for (const auto a : _candidates)
    {
      top_weight = std::max(top_weight, all.log_weights[a]);
      top_played = std::max(top_played, _played[a]);
    }
    for (std::size_t i = 0; i < size; ++i)
    {
      const std::size_t a = _candidates[i < count ? i : 0];
      c.losses[i] = losses[a];
      c.decayed[i] = _factors.left * all.log_weights[a];
      c.counts[i] = all.counts[a];
      c.real[i] = i < count ? 1. : 0.;
      // A first guess: as before the segment, or as if always played
      c.log_shares[i] =
          std::max(LEAST_FIRST_LOG_SHARE, std::max(all.log_weights[a] - top_weight, _played[a] - top_played));
    }
    solve_plays(_factors, c);
    for (std::size_t i = 0; i < count; ++i) { _plays[_candidates[i]] = c.plays[i]; }
  }
  std::fill(_plays.begin() + static_cast<std::ptrdiff_t>(all.actions), _plays.end(), _plays[0]);
}

void segment_step::bonuses(const recursion& all, double* result) const
{
  for (std::size_t a = 0; a < all.actions; ++a)
  {
    const double count = all.counts[a] - (1. - _factors.before) * _plays[a];
    result[a] = std::min(1., _factors.half_beta / count);
  }
}
}  // namespace opo_cmab
