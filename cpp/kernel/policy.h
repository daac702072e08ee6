#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <vector>

// Algorithm 1 of Levy and Mansour (2026), "Optimal Regret for Policy Optimization in Contextual Bandits", for one
// context c_t: from the past predictors f_1 .. f_{t-1} to the policy pi_t(c_t, .). Pure math, nothing of VW.
namespace opo_cmab
{
/// eta; how large the exploration bonus is, a constant beta as in Algorithm 1, or beta_k = gamma sqrt(k / |A|); and how
/// much of the past is left after a round: pi_{k+1}(a) ~ pi_k(a)^decay exp(-eta loss). Algorithm 1 has a decay of 1.
class policy_settings
{
public:
  double eta = 0.;
  double decay = 1.;  ///< in [0, 1]
  double gamma = 0.;
  double beta = -1.;  ///< below 0: not constant
};

/// How a past prediction becomes a loss: offset + scale * prediction, or offset + scale * sigmoid(prediction).
class loss_map
{
public:
  double offset = 0.;
  double scale = 1.;
  bool logistic = false;

  double loss(double prediction) const;
};

/// The policies pi_1, pi_2, .. of one context, one step for each past predictor.
///
/// Weights are kept as logarithms, so that an action whose probability underflows can come back. An action is live if
/// its weight is more than exp(-40) = 4e-18 of the largest; the others have probability 0. Where one action only is
/// live the policy needs no exponentials, and a whole block of rounds is done at once if it is certain that nothing
/// changes in it. With the learning rates that work well this is nearly always so.
class policy
{
public:
  /// pi_1: uniform
  void start(const policy_settings& settings, std::size_t actions);

  /// pi_k -> pi_{k+1}, for k = 1, 2, ..
  /// \param losses of each action: f_k(c, a), mapped to [0, 1] but not clipped
  void step(const double* losses);

  /// Steps through all past predictions of a context, given as changes from predictor to predictor, and clears them.
  /// \param changes of each action, of each round: f_1, f_2 - f_1, f_3 - f_2, ..
  void replay(double* changes, std::size_t rounds, const loss_map& map);

  /// The same for segments of the past with a budget: at most as many steps as the budget. A segment is a step, or
  /// several where it is long: each as many rounds as the leader stays the leader, as far as the budget allows.
  /// \param changes of each action, of each segment
  void replay(double* changes, const segments& past, const loss_map& map);

  const std::vector<double>& probabilities() const { return _pi; }

private:
  /// What decay makes of h rounds.
  class decayed_rounds
  {
  public:
    double left;  ///< decay^h
    double sum;   ///< 1 + decay + .. + decay^(h - 1): of losses that are the same in all of them
    double mean;  ///< the round that these weights have as their mean, from 0: the last rounds count most
  };

  policy_settings _settings;
  std::size_t _k = 1;
  std::size_t _leader = 0;  ///< the action of largest weight
  bool _leader_alone = false;
  std::vector<double> _pi;
  std::vector<double> _log_weights;
  std::vector<double> _counts;  ///< 1 + N(a), N(a) = sum_{i<k} pi_i(a)
  std::vector<double> _inverse_counts;
  std::vector<double> _roots;       ///< sqrt(k), as far as needed so far
  std::vector<double> _half_betas;  ///< beta_k / 2, of a block of rounds
  std::vector<double> _losses;      ///< of each action, of a block of rounds
  std::vector<double> _predictions;
  std::vector<decayed_rounds> _decayed;  ///< over 0, 1, 2, .. rounds
  std::vector<double> _others;           ///< log_weights of all but the leader, to be tried
  std::vector<double> _differences;      ///< of these, over a stretch: losses less the leader's

  void compute_half_betas(std::size_t rounds);
  void step_one(const double* losses, std::size_t stride, double half_beta);
  void step_several(const double* losses, uint32_t rounds);
  decayed_rounds decay_over(uint32_t rounds);
  uint32_t rounds_alike(const double* losses, uint32_t at_most) const;
  void update_probabilities();
  double half_beta(double k) const;
  bool step_stretch(std::size_t first_in_block);
};
}  // namespace opo_cmab
