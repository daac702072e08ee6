#include "kernel/segment_solver.h"

#include "kernel/plays.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace
{
using namespace opo_cmab;

constexpr std::size_t REMEMBERED = 256;  // lengths

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
    recursion& all, const double* losses, std::size_t k, const uint32_t* lengths, std::size_t count)
{
  const std::size_t width = up_to_multiple(_actions, WIDTH);
  if (_losses.size() < count * width) { _losses.resize(count * width, static_cast<Real>(WORST_LOSS)); }
  const std::size_t given = up_to_lanes(_actions);
  for (std::size_t i = 0; i < count; ++i)
  {
    for (std::size_t a = 0; a < given; a += LANES)
    {
      for (std::size_t j = a; j < a + LANES; ++j) { _losses[i * width + j] = static_cast<Real>(losses[i * given + j]); }
    }
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
    result[a] = std::min(LARGEST_LOSS, f.half_beta / (all.counts[a] - (1. - f.before) * plays));
  }
}

template class segment_solver<float>;
template class segment_solver<double>;
}  // namespace opo_cmab
