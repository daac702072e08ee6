#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <functional>
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

/// Told of each step of a replay before it is taken: its first round, counted from 0, how many rounds it is, and of
/// each action the loss, the bonus b that will be taken off it, and the probability pi_k(a).
using step_observer = std::function<void(
    std::size_t first, std::size_t rounds, const double* losses, const double* bonuses, const double* pi)>;

/// The policies pi_1, pi_2, .. of one context, one step for each past predictor.
///
/// Weights are kept as logarithms, so that an action whose probability underflows can come back. An action is live if
/// its weight is more than exp(-40) = 4e-18 of the largest; the others have probability 0. With the learning rates that
/// work well few are live, mostly one. So a stretch of rounds is tried with these alone, one needing no exponentials,
/// and the others all rounds at once; it counts if no other has become live on the way.
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
  void replay(double* changes, std::size_t rounds, const loss_map& map, const step_observer& observer = nullptr);

  /// The same for segments of the past with a budget: at most as many steps as the budget. A segment is a step, or
  /// several where it is long: each as many rounds as the leader stays the leader, as far as the budget allows.
  /// \param changes of each action, of each segment
  void replay(double* changes, const segments& past, const loss_map& map, const step_observer& observer = nullptr);

  const std::vector<double>& probabilities() const { return _all.pi; }

private:
  /// Where the recursion is, for all actions or for some of them.
  class state
  {
  public:
    std::vector<double> pi;
    std::vector<double> log_weights;  ///< relative to the largest
    std::vector<double> counts;       ///< 1 + N(a), N(a) = sum_{i<k} pi_i(a)
    std::vector<double> inverse_counts;
    std::size_t leader = 0;  ///< the action of largest weight
    bool leader_alone = false;

    void start(std::size_t actions);
    void copy(std::size_t action, const state& from, std::size_t action_there);
    /// \param losses of each action, `stride` apart
    /// \return what the largest log weight was before all became relative to it
    double step(const double* losses, std::size_t stride, double half_beta, const policy_settings& settings);
    double update_probabilities();
  };

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
  state _all;
  std::vector<double> _roots;       ///< sqrt(k), as far as needed so far
  std::vector<double> _half_betas;  ///< beta_k / 2, of a block of rounds
  std::vector<double> _losses;      ///< of each action, of a block of rounds
  std::vector<double> _predictions;
  std::vector<decayed_rounds> _decayed;  ///< over 0, 1, 2, .. rounds

  // Of a stretch that is tried:
  std::vector<std::size_t> _live_actions;
  std::vector<std::size_t> _other_actions;
  state _live;
  std::vector<double> _live_losses;
  std::vector<double> _others;       ///< log weights of the others
  std::vector<double> _differences;  ///< their losses, less what the largest log weight loses

  void compute_half_betas(std::size_t rounds);
  void step_several(const double* losses, uint32_t rounds);
  decayed_rounds decay_over(uint32_t rounds);
  uint32_t rounds_alike(const double* losses, uint32_t at_most) const;
  double half_beta(double k) const;
  void observe(const step_observer& observer, const double* losses, std::size_t stride, uint32_t rounds);
  bool step_stretch(std::size_t first_in_block);
};
}  // namespace opo_cmab
