#pragma once

#include "kernel/recursion.h"
#include "kernel/settings.h"
#include "kernel/width.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// What decay makes of h rounds.
class decayed_rounds
{
public:
  double left;  ///< decay^h
  double sum;   ///< 1 + decay + .. + decay^(h - 1): of losses that are the same in all of them
  double mean;  ///< the round that these weights have as their mean, from 0: the last rounds count most
};

/// What a step through a segment of h rounds is, but for the actions.
class segment_factors
{
public:
  double rounds;     ///< h
  double left;       ///< decay^h
  double eta;        ///< eta S
  double half_beta;  ///< beta_{k + m} / 2
  double before;     ///< m / h: the part of the plays that counts for the bonus
};

/// Some candidates for being played, side by side.
class candidate_block
{
public:
  double losses[LANES];
  double counts[LANES];
  double decayed[LANES];     ///< decay^h times the log-weight
  double unplayed[LANES];    ///< w(a) if it is never played
  double real[LANES];        ///< 1, or 0 where there is no candidate
  double log_shares[LANES];  ///< log(x(a) / h)
  double plays[LANES];       ///< x(a)
  double residuals[LANES];
  double inverse_slopes[LANES];
};

/// One step through a segment of h rounds, in which the losses f(a) are taken to be the same. We do not step through
/// its rounds but solve for how often each action is played in them, x(a), sum over a of x(a) = h: the policy that the
/// segment leads to is the one that is played in it,
///
///     x(a) / h ~ exp(w(a)),   w(a) = decay^h log pi(a) - eta S clip(f(a) - b(a), 0, 1),
///     b(a) = min(1, (beta_{k + m} / 2) / (1 + N(a) + x(a) m / h)),
///
/// S and m being the sum and the mean of decayed_rounds: plays come to where the optimistic losses of all actions that
/// are played are nearly the same, as water finds its level. The more an action is played, the higher its optimistic
/// loss, so there is one solution. Then N(a) += x(a), and pi(a) = x(a) / h.
class segment_step
{
public:
  void start(const policy_settings& settings, std::size_t actions);

  /// \param losses of each action and up to a multiple of LANES
  /// \param k the first round of the segment, counted from 1
  void step(recursion& all, const double* losses, double k, uint32_t rounds);

  /// Of the last step: the bonus b(a).
  void bonuses(const recursion& all, double* result) const;

private:
  policy_settings _settings;
  std::vector<decayed_rounds> _decayed;  ///< over 0, 1, 2, .. rounds
  segment_factors _factors;              ///< of the last step
  std::vector<double> _plays;            ///< x(a)

  std::vector<double> _unplayed;         ///< of each action, w(a) if it is never played
  std::vector<std::size_t> _candidates;  ///< the actions that may be played in the segment
  std::vector<candidate_block> _blocks;  ///< those, LANES at a time

  decayed_rounds decay_over(uint32_t rounds);
  void find_plays(const recursion& all, const double* losses);
};
}  // namespace opo_cmab
