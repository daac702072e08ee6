#pragma once

#include "kernel/lanes.h"
#include "kernel/optimistic_loss.h"
#include "kernel/segment_solver.h"
#include "kernel/width.h"

#include <cstddef>
#include <cstring>
#include <limits>

// How often each action is played in a long segment: the equations of segment_step.h, solved by Newton's method.
namespace opo_cmab
{
// How well we solve. A step of Newton's method from the last shares will do if it moves less than about half of the
// plays. If not, we start afresh, until a step would move less than a tenth of the plays, and grow no share of more
// than exp(-3) by more than a factor of e; or for so many steps. More precision changes decisions by less than the
// segments do.
constexpr double MOST_MOVED = 0.45;  // not 0.5, which is moved if one of four equal actions drops out: a tie
constexpr double TOLERANCE = 0.1;
constexpr double LARGE_LOG_SHARE = -3.;
constexpr int MOST_STEPS = 2;
constexpr double GUESS = -5.3;  // of a log-share; a round number would meet clips exactly, and rounding would decide
constexpr double LEAST_SHARE = 8.75651076269652e-27;  // exp(-60)

template <typename Real>
class vector_of;
template <>
class vector_of<double>
{
public:
  using type = lanes;
};
template <>
class vector_of<float>
{
public:
  using type = float_lanes;
};

/// Some actions, side by side: their state before and after a segment, and what solving for their plays needs.
template <typename Real>
class alignas(32) play_block  // without AVX vectors would be aligned to less
{
public:
  using vector = typename vector_of<Real>::type;
  vector counts;       ///< 1 + N(a)
  vector log_weights;  ///< nearly relative to the largest
  vector real;         ///< 1, or 0 for padding
  vector shares;       ///< in the last segment
  vector log_shares;   ///< log(x(a) / h); of the last segment relative to the largest
  vector losses;
  vector decayed;         ///< decay^h times the log-weight
  vector unplayed;        ///< w(a) if it is never played
  vector candidate;       ///< 1, or 0 if it cannot be played
  vector plays;           ///< x(a)
  vector residuals;       ///< log(x(a) / h) - w(a)
  vector moves;           ///< the Newton step of log(x(a) / h)
  vector inverse_slopes;  ///< of the residuals; 0 for padding
};

/// What to start from, or to go on from after a large step: the shares that lead to a level, nearly. As if plays
/// changed no bonus, or, if that is less, so that the optimistic loss comes to the level, the log-shares for this being
/// guessed.
template <typename Real>
OPO_CMAB_INLINE void set_shares(const segment_factors<Real>& f, play_block<Real>& b,
    typename play_block<Real>::vector level, typename play_block<Real>::vector guess)
{
  using vector = typename play_block<Real>::vector;
  const vector none = {};
  const vector one = none + 1;
  const vector least = none + Real(LEAST_LOG_SHARE);
  const vector flat = max(min(level + b.unplayed, none), least);
  const vector bonus = b.losses - (level + b.decayed - guess) * f.inverse_eta;
  const vector share = (f.half_beta / bonus - b.counts) * f.inverse_mean;
  const vector possible = bonus > none ? (share > Real(1e-30) ? min(share, one) : one) : one;
  b.log_shares = max(min(flat, log_of(possible)), least);
  b.plays = (f.rounds * b.candidate) * min(exp_of(flat), possible);  // exp of the above, sooner known
}

/// One step of Newton's method: log(x(a) / h) - w(a) must be the same for all actions, the level.
/// \return the level
template <typename Real>
OPO_CMAB_INLINE typename play_block<Real>::vector newton_step(
    const segment_factors<Real>& f, play_block<Real>* blocks, std::size_t size)
{
  using vector = typename play_block<Real>::vector;
  const vector none = {};
  const vector one = none + 1;
  const Real bend = f.eta * f.before * f.half_beta;
  vector reached = none;
  vector gains = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    const vector x = b.plays;
    const vector count = b.counts + f.before * x;
    const vector bonus = f.half_beta / count;
    const vector rest = b.losses - bonus;
    const vector squared = count * count;
    const vector inverse_slope = squared / (squared + bend * x);
    b.inverse_slopes = rest > none ? (rest < one ? inverse_slope : b.real) : b.real;
    b.residuals = b.log_shares + f.eta * optimistic_loss(b.losses, bonus) - b.decayed;
    const vector gain = x * b.inverse_slopes;
    reached += x - gain * b.residuals;
    gains += gain;
  }
  const vector level = (f.rounds - sums(reached)) / sums(gains);
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.moves = (level - b.residuals) * b.inverse_slopes;
  }
  return level;
}

/// How much of the plays a Newton step moves. Large moves count for all.
template <typename Real>
OPO_CMAB_INLINE Real moves_of(const segment_factors<Real>& f, const play_block<Real>* blocks, std::size_t size)
{
  using vector = typename play_block<Real>::vector;
  const vector none = {};
  vector moved = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    const auto& b = blocks[i];
    const vector move = b.moves;
    const vector large =
        move > none + 1 ? (b.log_shares + move > Real(LARGE_LOG_SHARE) ? none + f.rounds : none) : none;
    moved += b.plays * max(move, -move) + large * b.candidate;
  }
  return sums(moved)[0];
}

/// Reads the losses of a segment, and decays the log-weights.
template <typename Real>
OPO_CMAB_INLINE void start_segment(
    play_block<Real>* blocks, std::size_t size, const segment_factors<Real>& f, const Real* losses)
{
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    std::memcpy(&b.losses, losses + i * sizeof(b.losses) / sizeof(Real), sizeof(b.losses));
    b.decayed = f.left * b.log_weights;
  }
}

/// Solves for the plays by one Newton step from the shares in the segment before, which are mostly near.
/// \return whether they were
template <typename Real>
OPO_CMAB_INLINE bool solve_from_last(const segment_factors<Real>& f, play_block<Real>* blocks, std::size_t size)
{
  using vector = typename play_block<Real>::vector;
  const vector none = {};
  const vector least = none + HIDDEN_LEAST_LOG_SHARE;
  for (std::size_t i = 0; i < size; ++i) { blocks[i].plays = f.rounds * blocks[i].shares; }
  newton_step(f, blocks, size);
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.log_shares = (b.real > none ? b.log_shares : least) + b.moves;  // padding does not move
  }
  vector top = blocks[0].log_shares;
  for (std::size_t i = 1; i < size; ++i) { top = max(top, blocks[i].log_shares); }
  const vector highest = maxima(top);
  vector totals = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.log_shares = max(b.log_shares - highest, least);
    b.shares = b.real > none ? exp_of(b.log_shares) : none;
    totals += b.shares;
  }
  const vector scale = 1 / sums(totals);
  vector moved = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    const vector before = b.plays;
    b.shares *= scale;
    b.plays = f.rounds * b.shares;
    moved += max(b.plays - before, before - b.plays);
  }
  return sums(moved)[0] < Real(MOST_MOVED) * f.rounds;
}

/// Solves for the plays from the log-weights alone.
template <typename Real>
OPO_CMAB_INLINE void solve_afresh(const segment_factors<Real>& f, play_block<Real>* blocks, std::size_t size)
{
  using vector = typename play_block<Real>::vector;
  const vector none = {};
  vector top = none - std::numeric_limits<Real>::infinity();
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.unplayed = b.decayed - f.eta * optimistic_loss(b.losses, f.half_beta / b.counts);
    top = max(top, b.decayed - f.eta * optimistic_loss(b.losses, f.half_beta / (b.counts + f.mean)));
  }
  const vector highest = -maxima(top);  // the level if one action were always played: the true one is not higher
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.candidate = b.unplayed + highest > Real(NEGLIGIBLE) ? b.real : none;
    set_shares(f, b, highest, none + Real(GUESS));
  }
  vector level = newton_step(f, blocks, size);
  Real moves = moves_of(f, blocks, size);
  for (int step = 1; step < MOST_STEPS && !(moves < Real(TOLERANCE) * f.rounds); ++step)
  {
    for (std::size_t i = 0; i < size; ++i)
    {
      auto& b = blocks[i];
      const vector move = b.moves;
      const vector newton = b.log_shares + (move > none ? move / (1 + Real(0.25) * move) : move);
      set_shares(f, b, level, max(b.log_shares, none - 12));
      const vector next = move > none + 1 ? b.log_shares : (move < none - 3 ? b.log_shares : newton);
      b.log_shares = max(min(next, none), none + Real(LEAST_LOG_SHARE));
      b.plays = (f.rounds * b.candidate) * exp_of(b.log_shares);
    }
    level = newton_step(f, blocks, size);
    moves = moves_of(f, blocks, size);
  }
  vector totals = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.plays = b.plays * max(1 + b.moves, none);
    totals += b.plays;
  }
  const vector scale = 1 / sums(totals);
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.shares = b.plays * scale;
    b.plays = f.rounds * b.shares;
    b.log_shares = log_of(max(b.shares, none + Real(LEAST_SHARE)));
  }
}
}  // namespace opo_cmab
