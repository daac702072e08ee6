#pragma once

#include "kernel/active_set.h"
#include "kernel/losses.h"
#include "kernel/recursion.h"
#include "kernel/segment_step.h"
#include "kernel/segments.h"
#include "kernel/settings.h"

#include <cstddef>
#include <functional>
#include <vector>

// Algorithm 1 of Levy and Mansour (2026), "Optimal Regret for Policy Optimization in Contextual Bandits", for one
// context c_t: from the past predictors f_1 .. f_{t-1} to the policy pi_t(c_t, .). Pure math, without VW.
namespace opo_cmab
{
class past_predictions;

/// Called for each step of a replay with its first round, counted from 0, its number of rounds, and for each action the
/// loss, the bonus b, and the probability before the step.
using step_observer = std::function<void(
    std::size_t first, std::size_t rounds, const double* losses, const double* bonuses, const double* pi)>;

/// The policies pi_1, pi_2, .. of one context.
class policy
{
public:
  /// pi_1: uniform
  void start(const policy_settings& settings, std::size_t actions);

  /// pi_k -> pi_{k+1}, for k = 1, 2, ..
  /// \param losses by action: f_k(c, a), mapped to [0, 1] but not clipped (above LARGEST_LOSS they count as that)
  void step(const double* losses);

  /// Steps through the past, one step per segment: exactly for a segment of one round, by segment_step.h for a longer
  /// one. Uses up the predictions.
  void replay(past_predictions& predictions, const loss_map& map, const step_observer& observer = nullptr);

  const double* probabilities() const { return _recursion.pi.data(); }

private:
  policy_settings _settings;
  std::size_t _k = 1;  ///< the next round
  recursion _recursion;
  active_set _active_set;
  segment_step _segment_step;
  std::vector<double> _roots;       ///< sqrt(k), computed as needed
  std::vector<double> _half_betas;  ///< beta_k / 2 for a block of rounds
  std::vector<double> _losses;      ///< by segment of a block and action, padded
  std::vector<uint32_t> _lengths;   ///< of the segments of a block

  void compute_half_betas(std::size_t rounds);
  void step_exactly(std::size_t rounds);
  void step_observed(const step_observer& observer);
};
}  // namespace opo_cmab
