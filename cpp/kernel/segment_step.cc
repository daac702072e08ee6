#include "kernel/segment_step.h"

#include "kernel/action_arrays.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace
{
using namespace opo_cmab;

// How well we solve: until a Newton step would move less than a tenth of the plays, and grow no share of more than
// exp(-3) by more than a factor of e; or for so many steps. More changes decisions by less than the segments do.
constexpr double TOLERANCE = 0.1;
constexpr double LARGE_LOG_SHARE = -3.;
constexpr int MOST_STEPS = 2;
constexpr double LEAST_LOG_SHARE = -60.;
constexpr std::size_t REMEMBERED = 256;  // lengths

/// Some actions in a segment, side by side: what solving for their plays needs.
class alignas(LANES * sizeof(double)) play_block  // without AVX vectors would be aligned to less
{
public:
  lanes losses;
  lanes counts;
  lanes decayed;     ///< decay^h times the log-weight
  lanes unplayed;    ///< w(a) if it is never played
  lanes candidate;   ///< 1, or 0 if it cannot be played
  lanes log_shares;  ///< log(x(a) / h)
  lanes plays;       ///< x(a)
  lanes residuals;   ///< log(x(a) / h) - w(a), or the Newton step
  lanes inverse_slopes;
};

/// What to start from, or to go on from after a large step: the shares that lead to a level, nearly. As if plays
/// changed no bonus, or, if that is less, so that the optimistic loss comes to the level, the log-shares for this being
/// guessed.
OPO_CMAB_INLINE void set_shares(const segment_factors& f, play_block& b, double level, lanes guess)
{
  const lanes none = {};
  const lanes flat = max(min(level + b.unplayed, none), none + LEAST_LOG_SHARE);
  const lanes bonus = b.losses - (level + b.decayed - guess) * f.inverse_eta;
  const lanes share = (f.half_beta / bonus - b.counts) * f.inverse_mean;
  const lanes possible = bonus > 0. ? (share > 1e-30 ? min(share, none + 1.) : none + 1.) : none + 1.;
  b.log_shares = max(min(flat, log_of(possible)), none + LEAST_LOG_SHARE);
  b.plays = (f.rounds * b.candidate) * min(exp_of_negative(flat), possible);  // exp of the above, sooner known
}

/// One step of Newton's method: log(x(a) / h) - w(a) must be the same for all actions, the level.
/// \param moves set: how much of the plays it would move; large moves count for all
/// \return the level
OPO_CMAB_INLINE double newton_step(const segment_factors& f, play_block* blocks, std::size_t size, double& moves)
{
  const lanes none = {};
  const double bend = f.eta * f.before * f.half_beta;
  lanes reached = none;
  lanes gains = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    const lanes x = b.plays;
    const lanes count = b.counts + f.before * x;
    const lanes bonus = f.half_beta / count;
    const lanes rest = b.losses - bonus;
    const lanes squared = count * count;
    const lanes inverse_slope = squared / (squared + bend * x);
    b.inverse_slopes = bonus < 1. ? (rest > 0. ? (rest < 1. ? inverse_slope : none + 1.) : none + 1.) : none + 1.;
    b.residuals = b.log_shares + f.eta * optimistic_loss(b.losses, bonus) - b.decayed;
    const lanes gain = x * b.inverse_slopes;
    reached += x - gain * b.residuals;
    gains += gain;
  }
  const double level = (f.rounds - sum(reached)) / sum(gains);
  lanes moved = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    const lanes move = (level - b.residuals) * b.inverse_slopes;
    const lanes large = move > 1. ? (b.log_shares + move > LARGE_LOG_SHARE ? none + f.rounds : none) : none;
    moved += b.plays * (move > 0. ? move : -move) + large * b.candidate;
    b.residuals = move;
  }
  moves = sum(moved);
  return level;
}

/// Steps through a segment of several rounds.
/// \param size of the arrays, in lanes; there are as many blocks
/// \param weights_matter whether the log-weights count for the next segment
template <typename Array>
OPO_CMAB_INLINE void step_long_segment(Array& pi, Array& log_weights, Array& counts, const Array& real,
    play_block* blocks, std::size_t size, const segment_factors& f, const double* losses, bool weights_matter)
{
  const lanes none = {};
  lanes top = none - HUGE_VAL;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.losses = load(losses + i * LANES);
    b.counts = counts.get(i);
    b.decayed = f.left * log_weights.get(i);
    b.unplayed = b.decayed - f.eta * optimistic_loss(b.losses, f.half_beta / b.counts);
    top = max(top, b.decayed - f.eta * optimistic_loss(b.losses, f.half_beta / (b.counts + f.mean)));
  }
  const double highest = -largest(top);  // the level if one action were always played, and not less than the level
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.candidate = b.unplayed + highest > NEGLIGIBLE ? real.get(i) : none;
    set_shares(f, b, highest, none - 5.);
  }
  double moves = 0.;
  double level = newton_step(f, blocks, size, moves);
  for (int step = 1; step < MOST_STEPS && !(moves < TOLERANCE * f.rounds); ++step)
  {
    for (std::size_t i = 0; i < size; ++i)
    {
      auto& b = blocks[i];
      const lanes move = b.residuals;
      const lanes newton = b.log_shares + (move > 0. ? move / (1. + 0.25 * move) : move);
      set_shares(f, b, level, max(b.log_shares, none - 12.));
      const lanes next = move > 1. ? b.log_shares : (move < -3. ? b.log_shares : newton);
      b.log_shares = max(min(next, none), none + LEAST_LOG_SHARE);
      b.plays = (f.rounds * b.candidate) * exp_of_negative(b.log_shares);
    }
    level = newton_step(f, blocks, size, moves);
  }
  lanes totals = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.plays = b.plays * max(1. + b.residuals, none);
    totals += b.plays;
  }
  const double scale = f.rounds / sum(totals);
  const double share = 1. / f.rounds;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    const lanes x = b.plays * scale;
    if (weights_matter)
    {
      const lanes loss = optimistic_loss(b.losses, f.half_beta / (b.counts + f.before * x));
      log_weights.set(i, (b.decayed - f.eta * loss) + highest);  // nearly relative to the largest, for precision
    }
    counts.set(i, b.counts + x);
    pi.set(i, x * share);
  }
}

/// Segments to be stepped through.
class segment_input
{
public:
  const double* losses;  ///< of each segment, of each action
  const segment_factors* factors;
  std::size_t segments;
};

template <typename Array>
OPO_CMAB_INLINE void step_segments(recursion& all, play_block* blocks, std::size_t size, const segment_input& input)
{
  Array pi(all.pi.data());
  Array log_weights(all.log_weights.data());
  Array counts(all.counts.data());
  const Array real(all.real.data());
  for (std::size_t i = 0; i < input.segments; ++i)
  {
    const auto& f = input.factors[i];
    const double* losses = input.losses + i * size * LANES;
    if (f.rounds == 1.) { step_round(pi, log_weights, counts, real, size, losses, f.half_beta, f.left, f.eta); }
    else
    {
      const bool weights_matter = i + 1 == input.segments || input.factors[i + 1].left != 0.;
      step_long_segment(pi, log_weights, counts, real, blocks, size, f, losses, weights_matter);
    }
  }
  pi.write(all.pi.data());
  log_weights.write(all.log_weights.data());
  counts.write(all.counts.data());
}

OPO_CMAB_VECTORIZED
void step_actions(recursion& all, char* memory, const segment_input& input)
{
  const std::size_t size = all.pi.size();
  if (size == LANES)
  {
    play_block own[1];
    return step_segments<in_registers<1>>(all, own, 1, input);
  }
  if (size == 2 * LANES)
  {
    play_block own[2];
    return step_segments<in_registers<2>>(all, own, 2, input);
  }
  step_segments<in_memory>(all, reinterpret_cast<play_block*>(memory), size / LANES, input);
}
}  // namespace

namespace opo_cmab
{
void segment_step::start(const policy_settings& settings, std::size_t actions)
{
  if (settings.decay != _settings.decay || settings.eta != _settings.eta) { _by_length.clear(); }
  _by_length.resize(REMEMBERED);
  _settings = settings;
  _memory.resize((up_to_lanes(actions) / LANES + 1) * sizeof(play_block));  // one more, to align them
}

const length_factors& segment_step::of_length(uint32_t rounds)
{
  auto& f = _by_length[rounds % REMEMBERED];
  const double h = rounds;
  if (f.rounds == h) { return f; }
  const double d = _settings.decay;
  f.rounds = h;
  if (h * (1. - d) < 1e-6)  // the formulas below would cancel
  {
    f.left = 1.;
    f.eta = _settings.eta * h;
    f.mean = 0.5 * (h - 1.);
  }
  else
  {
    const double left = std::pow(d, h);
    f.left = left < 1e-20 ? 0. : left;
    f.eta = _settings.eta * ((1. - left) / (1. - d));
    f.mean = h - 1. - (d / (1. - d) - h * left / (1. - left));
  }
  f.inverse_eta = 1. / f.eta;
  f.before = f.mean / h;
  f.inverse_mean = 1. / f.mean;
  return f;
}

void segment_step::step(recursion& all, const double* losses, std::size_t k, const uint32_t* lengths, std::size_t count)
{
  _factors.resize(count);
  for (std::size_t i = 0; i < count; ++i)
  {
    auto& f = _factors[i];
    static_cast<length_factors&>(f) = of_length(lengths[i]);
    f.half_beta = _settings.half_beta(static_cast<double>(k) + f.mean, all.actions);
    k += lengths[i];
  }
  void* memory = _memory.data();
  std::size_t size = _memory.size();
  std::align(alignof(play_block), sizeof(play_block), memory, size);
  step_actions(all, static_cast<char*>(memory), {losses, _factors.data(), count});
}

void segment_step::bonuses(const recursion& all, double* result) const
{
  const auto& f = _factors.back();
  for (std::size_t a = 0; a < all.actions; ++a)
  {
    const double plays = all.pi[a] * f.rounds;
    result[a] = std::min(1., f.half_beta / (all.counts[a] - (1. - f.before) * plays));
  }
}
}  // namespace opo_cmab
