#include "kernel/segment_solver.h"

#include "kernel/lanes.h"
#include "kernel/optimistic_loss.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace
{
using namespace opo_cmab;

// How well we solve. A step of Newton's method from the last shares will do if it moves less than about half of the
// plays. If not, we start afresh, until a step would move less than a tenth of the plays, and grow no share of more
// than exp(-3) by more than a factor of e; or for so many steps. More precision changes decisions by less than the
// segments do.
constexpr double MOST_MOVED =
    0.45;  // not 0.5, which one of four equal actions that drops out moves: rounding would decide
constexpr double TOLERANCE = 0.1;
constexpr double LARGE_LOG_SHARE = -3.;
constexpr int MOST_STEPS = 2;
constexpr double LEAST_LOG_SHARE = -60.;
constexpr double GUESS = -5.3;  // of a log-share; a round number would meet clips exactly, and rounding would decide
constexpr double LEAST_SHARE = 8.75651076269652e-27;  // exp(-60)
constexpr std::size_t REMEMBERED = 256;               // lengths

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
  vector decayed;    ///< decay^h times the log-weight
  vector unplayed;   ///< w(a) if it is never played
  vector candidate;  ///< 1, or 0 if it cannot be played
  vector plays;      ///< x(a)
  vector residuals;  ///< log(x(a) / h) - w(a)
  vector moves;      ///< the Newton step of log(x(a) / h)
  vector inverse_slopes;
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
  b.plays = (f.rounds * b.candidate) * min(exp_of_negative(flat), possible);  // exp of the above, sooner known
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
    b.inverse_slopes = bonus < one ? (rest > none ? (rest < one ? inverse_slope : one) : one) : one;
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
  const vector least = none + Real(LEAST_LOG_SHARE);
  for (std::size_t i = 0; i < size; ++i) { blocks[i].plays = f.rounds * blocks[i].shares; }
  newton_step(f, blocks, size);
  vector top = least;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.log_shares = b.real > none ? b.log_shares + b.moves : least;
    top = max(top, b.log_shares);
  }
  const vector highest = maxima(top);
  vector totals = none;
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    b.log_shares = max(b.log_shares - highest, least);
    b.shares = b.real * exp_of_negative(b.log_shares);
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
      b.plays = (f.rounds * b.candidate) * exp_of_negative(b.log_shares);
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

/// Steps through a segment.
/// \param weights_matter whether the log-weights count for the next segment
template <typename Real>
OPO_CMAB_INLINE void step_segment(
    play_block<Real>* blocks, std::size_t size, const segment_factors<Real>& f, const Real* losses, bool weights_matter)
{
  start_segment(blocks, size, f, losses);
  if (!solve_from_last(f, blocks, size)) { solve_afresh(f, blocks, size); }
  for (std::size_t i = 0; i < size; ++i)
  {
    auto& b = blocks[i];
    if (weights_matter)
    {
      b.log_weights = b.decayed - f.eta * optimistic_loss(b.losses, f.half_beta / (b.counts + f.before * b.plays));
    }
    b.counts += b.plays;
  }
  if (!weights_matter) { return; }
  auto top = blocks[0].log_weights;
  for (std::size_t i = 1; i < size; ++i) { top = max(top, blocks[i].log_weights); }
  const auto highest = maxima(top);
  for (std::size_t i = 0; i < size; ++i) { blocks[i].log_weights -= highest; }  // for precision
}

/// Segments to be stepped through.
template <typename Real>
class segment_input
{
public:
  const Real* losses;  ///< by segment and action, padded
  const segment_factors<Real>* factors;
  std::size_t count;
};

template <typename Real>
OPO_CMAB_INLINE void step_segments(play_block<Real>* blocks, std::size_t size, const segment_input<Real>& input)
{
  for (std::size_t i = 0; i < input.count; ++i)
  {
    const bool weights_matter = i + 1 == input.count || input.factors[i + 1].left != 0;
    const Real* losses = input.losses + i * size * sizeof(blocks->losses) / sizeof(Real);
    step_segment(blocks, size, input.factors[i], losses, weights_matter);
  }
}

template <typename Real>
OPO_CMAB_INLINE void step_by_size(play_block<Real>* blocks, std::size_t size, const segment_input<Real>& input)
{
  if (size == 1)  // kept in registers
  {
    play_block<Real> own = *blocks;
    step_segments(&own, 1, input);
    *blocks = own;
  }
  else { step_segments(blocks, size, input); }
}

OPO_CMAB_VECTORIZED
void step_blocks(play_block<float>* blocks, std::size_t size, const segment_input<float>& input)
{
  step_by_size(blocks, size, input);
}

OPO_CMAB_VECTORIZED
void step_blocks(play_block<double>* blocks, std::size_t size, const segment_input<double>& input)
{
  step_by_size(blocks, size, input);
}
}  // namespace

namespace opo_cmab
{
template <typename Real>
void segment_solver<Real>::start(const policy_settings& settings, std::size_t actions)
{
  if (settings.decay != _settings.decay || settings.eta != _settings.eta)
  {
    _by_length.clear();
    _factors.clear();
  }
  _by_length.resize(REMEMBERED);
  _settings = settings;
  if (actions != _actions) { _losses.clear(); }
  _actions = actions;
  _memory.resize((up_to_multiple(actions, WIDTH) / WIDTH + 1) * sizeof(play_block<Real>));  // one more, to align them
}

template <typename Real>
const length_factors<Real>& segment_solver<Real>::of_length(uint32_t rounds)
{
  auto& f = _by_length[rounds % REMEMBERED];
  const double h = rounds;
  if (f.rounds == static_cast<Real>(h)) { return f; }
  const double d = _settings.decay;
  double left = 1.;
  double eta = _settings.eta * h;
  double mean = 0.5 * (h - 1.);
  if (h * (1. - d) >= 1e-6)  // else this would cancel
  {
    left = std::pow(d, h);
    eta = _settings.eta * ((1. - left) / (1. - d));
    mean = h - 1. - (d / (1. - d) - h * left / (1. - left));
  }
  f.rounds = static_cast<Real>(h);
  f.mean = static_cast<Real>(mean);
  f.left = left < 1e-20 ? 0 : static_cast<Real>(left);
  f.eta = static_cast<Real>(eta);
  f.inverse_eta = static_cast<Real>(1. / eta);
  f.before = static_cast<Real>(mean / h);
  f.inverse_mean = static_cast<Real>(1. / mean);
  return f;
}

template <typename Real>
void segment_solver<Real>::step(
    recursion& all, const double* losses, std::size_t stride, std::size_t k, const uint32_t* lengths, std::size_t count)
{
  const std::size_t width = up_to_multiple(_actions, WIDTH);
  if (_losses.size() < count * width) { _losses.resize(count * width, static_cast<Real>(WORST_LOSS)); }
  for (std::size_t a = 0; a < _actions; ++a)
  {
    const double* own = losses + a * stride;
    for (std::size_t i = 0; i < count; ++i) { _losses[i * width + a] = static_cast<Real>(own[i]); }
  }
  if (_factors.size() < count) { _factors.resize(count); }
  const double half_beta_factor = _settings.half_beta_factor(_actions);
  for (std::size_t i = 0; i < count; ++i)
  {
    auto& f = _factors[i];
    if (f.first != k || f.rounds != static_cast<Real>(lengths[i]))
    {
      static_cast<length_factors<Real>&>(f) = of_length(lengths[i]);
      f.first = k;
      f.root = std::sqrt(static_cast<double>(k) + f.mean);
    }
    f.half_beta = static_cast<Real>(half_beta_factor * (_settings.beta_is_constant() ? 1. : f.root));
    k += lengths[i];
  }
  _last = count - 1;

  void* memory = _memory.data();
  std::size_t size = _memory.size();
  std::align(alignof(play_block<Real>), sizeof(play_block<Real>), memory, size);
  auto* blocks = static_cast<play_block<Real>*>(memory);
  for (std::size_t a = 0; a < width; ++a)
  {
    auto& b = blocks[a / WIDTH];
    const bool is_real = a < _actions;
    b.counts[a % WIDTH] = is_real ? static_cast<Real>(all.counts[a]) : 1;
    b.log_weights[a % WIDTH] = is_real ? static_cast<Real>(all.log_weights[a]) : 0;
    b.real[a % WIDTH] = is_real ? 1 : 0;
    b.shares[a % WIDTH] = is_real ? static_cast<Real>(all.pi[a]) : 0;
    b.log_shares[a % WIDTH] = std::log(std::max<Real>(b.shares[a % WIDTH], static_cast<Real>(LEAST_SHARE)));
  }
  step_blocks(blocks, width / WIDTH, {_losses.data(), _factors.data(), count});

  double total = 0.;
  double top = -HUGE_VAL;
  for (std::size_t a = 0; a < _actions; ++a)
  {
    const auto& b = blocks[a / WIDTH];
    total += b.plays[a % WIDTH];
    top = std::max(top, static_cast<double>(b.log_weights[a % WIDTH]));
  }
  for (std::size_t a = 0; a < _actions; ++a)
  {
    const auto& b = blocks[a / WIDTH];
    all.counts[a] = b.counts[a % WIDTH];
    all.log_weights[a] = b.log_weights[a % WIDTH] - top;
    all.pi[a] = b.plays[a % WIDTH] / total;
  }
  for (std::size_t a = _actions; a < all.pi.size(); ++a) { all.copy(a, all, 0); }
}

template <typename Real>
void segment_solver<Real>::bonuses(const recursion& all, double* result) const
{
  const auto& f = _factors[_last];
  for (std::size_t a = 0; a < _actions; ++a)
  {
    const double plays = all.pi[a] * f.rounds;
    result[a] = std::min(1., f.half_beta / (all.counts[a] - (1. - f.before) * plays));
  }
}

template class segment_solver<float>;
template class segment_solver<double>;
}  // namespace opo_cmab
