#include "kernel/segment_step.h"

#include "kernel/width.h"

namespace
{
// Up to this eta S floats will do: log-weights then have an error of 1e-5.
constexpr double MOST_FOR_FLOATS = 150.;
}  // namespace

namespace opo_cmab
{
void segment_step::start(const policy_settings& settings, std::size_t actions)
{
  _settings = settings;
  _precise = settings.eta > MOST_FOR_FLOATS * (1. - settings.decay);
  if (_precise) { _precise_solver.start(settings, actions); }
  else { _solver.start(settings, actions); }
}

/// Segments of one round.
void segment_step::step_rounds(recursion& all, const double* losses, std::size_t k, std::size_t count)
{
  _half_betas.resize(count);
  _drops.resize(count);
  for (std::size_t i = 0; i < count; ++i)
  {
    _half_betas[i] = _settings.half_beta(static_cast<double>(k + i), all.actions);
  }
  all.step(losses, _half_betas.data(), count, _settings.decay, _settings.eta, _drops.data());
}

void segment_step::step(recursion& all, const double* losses, std::size_t k, const uint32_t* lengths, std::size_t count)
{
  const std::size_t width = all.pi.size();
  for (std::size_t i = 0; i < count;)
  {
    const bool single = lengths[i] == 1;
    std::size_t end = i;
    std::size_t next = k;
    for (; end < count && (lengths[end] == 1) == single; ++end) { next += lengths[end]; }
    if (single) { step_rounds(all, losses + i * width, k, end - i); }
    else if (_precise) { _precise_solver.step(all, losses + i * width, k, lengths + i, end - i); }
    else { _solver.step(all, losses + i * width, k, lengths + i, end - i); }
    i = end;
    k = next;
  }
}

void segment_step::bonuses(const recursion& all, double* result) const
{
  if (_precise) { _precise_solver.bonuses(all, result); }
  else { _solver.bonuses(all, result); }
}
}  // namespace opo_cmab
