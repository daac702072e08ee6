#include "kernel/segment_step.h"

#include "kernel/optimistic_loss.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

// How well we solve: until a Newton step would move less than a tenth of the plays, and grow no share of more than
// exp(-3) by more than a factor of e; or for so many steps. More changes decisions by less than the segments do.
constexpr double TOLERANCE = 0.1;
constexpr double LARGE_LOG_SHARE = -3.;
constexpr int MOST_STEPS = 2;
constexpr double LEAST_LOG_SHARE = -60.;

/// \param unplayed set: of each action, its log-weight if it is never played in the segment
/// \return the largest of the log-weights if each action were always played
OPO_CMAB_VECTORIZED
double bound_log_weights(const segment_factors& f, const double* losses, const double* log_weights,
    const double* counts, std::size_t size, double* unplayed)
{
  const lanes none = {};
  lanes top = none - HUGE_VAL;
  for (std::size_t i = 0; i < size; i += LANES)
  {
    const lanes decayed = f.left * load(log_weights + i);
    const lanes count = load(counts + i);
    const lanes loss = load(losses + i);
    store(unplayed + i, decayed - f.eta * optimistic_loss(loss, f.half_beta / count));
    top = max(top, decayed - f.eta * optimistic_loss(loss, f.half_beta / (count + f.before * f.rounds)));
  }
  return largest(top);
}

/// The log-shares that lead to a level, nearly: as if plays changed no bonus, or, if that is less, so that the
/// optimistic loss comes to the level, the log-shares for this being guessed.
OPO_CMAB_INLINE lanes shares_at_level(const segment_factors& f, const candidate_block& c, double level, lanes guess)
{
  const lanes none = {};
  const lanes flat = level + load(c.unplayed);
  const lanes bonus = load(c.losses) - (level + load(c.decayed) - guess) * (1. / f.eta);
  const lanes share = (f.half_beta / bonus - load(c.counts)) * (1. / (f.before * f.rounds));
  const lanes possible = bonus > 0. ? (share > 1e-30 ? share : none + 1.) : none + 1.;
  return max(min(min(flat, log_of(min(possible, none + 1.))), none), none + LEAST_LOG_SHARE);
}

/// Finds the plays: log(x(a) / h) - w(a) must be the same for all actions, the level. By Newton's method, or for a
/// large move by shares_at_level. \param highest the level if one action were always played, and not less than the
/// level
OPO_CMAB_INLINE void solve_blocks(const segment_factors& f, candidate_block* blocks, std::size_t size, double highest)
{
  const lanes none = {};
  for (std::size_t i = 0; i < size; ++i)
  {
    store(blocks[i].log_shares, shares_at_level(f, blocks[i], highest, none - 5.));
  }
  for (int step = 1;; ++step)
  {
    lanes reached = none;
    lanes gains = none;
    for (std::size_t i = 0; i < size; ++i)
    {
      auto& c = blocks[i];
      const lanes log_share = load(c.log_shares);
      const lanes x = f.rounds * load(c.real) * exp_of_negative(log_share);
      const lanes inverse_count = 1. / (load(c.counts) + f.before * x);
      const lanes bonus = f.half_beta * inverse_count;
      const lanes loss = load(c.losses);
      const lanes rest = loss - bonus;
      const lanes bend = (f.eta * f.before) * (bonus * inverse_count) * x;
      const lanes unclipped = bonus < 1. ? (rest > 0. ? (rest < 1. ? bend : none) : none) : none;
      const lanes residual = log_share + f.eta * optimistic_loss(loss, bonus) - load(c.decayed);
      const lanes inverse_slope = 1. / (1. + unclipped);
      const lanes gain = x * inverse_slope;
      reached += x - gain * residual;
      gains += gain;
      store(c.plays, x);
      store(c.residuals, residual);
      store(c.inverse_slopes, inverse_slope);
    }
    const double level = (f.rounds - sum(reached)) / sum(gains);
    lanes moved = none;
    lanes totals = none;
    for (std::size_t i = 0; i < size; ++i)
    {
      auto& c = blocks[i];
      const lanes x = load(c.plays);
      const lanes move = (level - load(c.residuals)) * load(c.inverse_slopes);
      const lanes large = move > 1. ? (load(c.log_shares) + move > LARGE_LOG_SHARE ? none + f.rounds : none) : none;
      moved += x * (move > 0. ? move : -move) + large * load(c.real);
      const lanes after = x * max(1. + move, none);
      totals += after;
      store(c.plays, after);
      store(c.residuals, move);
    }
    if (step == MOST_STEPS || sum(moved) < TOLERANCE * f.rounds)
    {
      const double scale = f.rounds / sum(totals);
      for (std::size_t i = 0; i < size; ++i) { store(blocks[i].plays, load(blocks[i].plays) * scale); }
      return;
    }
    for (std::size_t i = 0; i < size; ++i)
    {
      auto& c = blocks[i];
      const lanes log_share = load(c.log_shares);
      const lanes move = load(c.residuals);
      const lanes newton = log_share + (move > 0. ? move / (1. + 0.25 * move) : move);
      const lanes other = shares_at_level(f, c, level, max(log_share, none - 12.));
      const lanes next = move > 1. ? other : (move < -3. ? other : newton);
      store(c.log_shares, max(min(next, none), none + LEAST_LOG_SHARE));
    }
  }
}

OPO_CMAB_VECTORIZED
void solve_plays(const segment_factors& f, candidate_block* blocks, std::size_t size, double highest)
{
  if (size == 1) { solve_blocks(f, blocks, 1, highest); }
  else if (size == 2) { solve_blocks(f, blocks, 2, highest); }
  else { solve_blocks(f, blocks, size, highest); }
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
  _blocks.resize(size / LANES);
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
  const double top =
      bound_log_weights(_factors, losses, all.log_weights.data(), all.counts.data(), all.pi.size(), _unplayed.data());
  _candidates.clear();
  for (std::size_t a = 0; a < all.actions; ++a)
  {
    if (_unplayed[a] > top + NEGLIGIBLE) { _candidates.push_back(a); }
  }
  std::fill(_plays.begin(), _plays.end(), 0.);
  const std::size_t count = _candidates.size();
  if (count == 1) { _plays[_candidates[0]] = _factors.rounds; }
  else
  {
    const std::size_t size = up_to_lanes(count);
    for (std::size_t i = 0; i < size; ++i)
    {
      const std::size_t a = _candidates[i < count ? i : 0];
      auto& block = _blocks[i / LANES];
      block.losses[i % LANES] = losses[a];
      block.counts[i % LANES] = all.counts[a];
      block.decayed[i % LANES] = _factors.left * all.log_weights[a];
      block.unplayed[i % LANES] = _unplayed[a];
      block.real[i % LANES] = i < count ? 1. : 0.;
    }
    solve_plays(_factors, _blocks.data(), size / LANES, -top);
    for (std::size_t i = 0; i < count; ++i) { _plays[_candidates[i]] = _blocks[i / LANES].plays[i % LANES]; }
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
