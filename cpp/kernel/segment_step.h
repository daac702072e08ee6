#pragma once

#include "kernel/recursion.h"
#include "kernel/segment_solver.h"
#include "kernel/settings.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// Steps through segments. In one of h rounds the losses f(a) are taken to be the same. We do not step through its
/// rounds but solve for how often each action is played in them, x(a), sum over a of x(a) = h: the policy that the
/// segment leads to is the one that is played in it,
///
///     x(a) / h ~ exp(w(a)),   w(a) = decay^h log pi(a) - eta S clip(f(a) - b(a), 0, 1),
///     b(a) = min(LARGEST_LOSS, (beta_{k + m} / 2) / (1 + N(a) + x(a) m / h)),
///
/// S and m as in length_factors: plays come to where the optimistic losses of all actions that are played are nearly
/// the same, as water finds its level. The more an action is played, the higher its optimistic loss, so there is one
/// solution. Then N(a) += x(a), and pi(a) = x(a) / h. A segment of one round is a round of the recursion.
class segment_step
{
public:
  void start(const policy_settings& settings, std::size_t actions);

  /// \param losses by segment and action, padded as the recursion
  /// \param k the first round of the first segment, counted from 1
  /// \param lengths of the segments
  void step(recursion& all, const double* losses, std::size_t k, const uint32_t* lengths, std::size_t count);

  /// The bonus b(a) in the last segment, if it was a long one.
  void bonuses(const recursion& all, double* result) const;

private:
  policy_settings _settings;
  bool _precise = false;  ///< whether floats would not do
  segment_solver<float> _solver;
  segment_solver<double> _precise_solver;
  std::vector<double> _half_betas;
  std::vector<double> _drops;

  void step_rounds(recursion& all, const double* losses, std::size_t k, std::size_t count);
};
}  // namespace opo_cmab
