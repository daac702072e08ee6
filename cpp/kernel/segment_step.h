#pragma once

#include "kernel/recursion.h"
#include "kernel/settings.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// What steps through segments of h rounds have in common. A loss that is the same in all of them counts S times, and
/// the last rounds count most: S and m are the sum and the mean of the weights decay^(h-1), .., decay, 1, m counted
/// from 0.
class length_factors
{
public:
  double rounds;  ///< h
  double mean;    ///< m
  double left;    ///< decay^h; 0 where it changes nothing
  double eta;     ///< eta S
  double inverse_eta;
  double before;  ///< m / h: the part of the plays that counts for the bonus
  double inverse_mean;
};

/// A segment to be stepped through.
class segment_factors : public length_factors
{
public:
  double half_beta;  ///< beta_{k + m} / 2
};

/// Steps through segments. In one of h rounds the losses f(a) are taken to be the same. We do not step through its
/// rounds but solve for how often each action is played in them, x(a), sum over a of x(a) = h: the policy that the
/// segment leads to is the one that is played in it,
///
///     x(a) / h ~ exp(w(a)),   w(a) = decay^h log pi(a) - eta S clip(f(a) - b(a), 0, 1),
///     b(a) = min(1, (beta_{k + m} / 2) / (1 + N(a) + x(a) m / h)),
///
/// S and m as in length_factors: plays come to where the optimistic losses of all actions that are played are nearly
/// the same, as water finds its level. The more an action is played, the higher its optimistic loss, so there is one
/// solution. Then N(a) += x(a), and pi(a) = x(a) / h. A segment of one round is a round of the recursion.
class segment_step
{
public:
  void start(const policy_settings& settings, std::size_t actions);

  /// \param losses of each segment, of each action; WORST_LOSS beyond, up to a multiple of LANES
  /// \param k the first round of the first segment, counted from 1
  /// \param lengths of the segments
  void step(recursion& all, const double* losses, std::size_t k, const uint32_t* lengths, std::size_t count);

  /// Of the last segment: the bonus b(a).
  void bonuses(const recursion& all, double* result) const;

private:
  policy_settings _settings;
  std::vector<length_factors> _by_length;  ///< those used last, each in the place that its length says
  std::vector<segment_factors> _factors;   ///< of the segments
  std::vector<char> _memory;               ///< for solving

  const length_factors& of_length(uint32_t rounds);
};
}  // namespace opo_cmab
