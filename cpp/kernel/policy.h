#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
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

/// What past predictions mean: the loss is offset + scale * prediction, or offset + scale * sigmoid(prediction). The
/// offset and the scale may change from one stretch of the past to the next.
class loss_map
{
public:
  class piece
  {
  public:
    std::size_t end;  ///< the first round or segment that it does not hold for
    double offset;
    double scale;
  };

  bool logistic = false;
  std::vector<piece> pieces = {{SIZE_MAX, 0., 1.}};  ///< in the order of the past, the last to its end
};

/// A step: of one round, or of several that are taken to be alike.
class step_factors
{
public:
  double decay;
  double eta;
  double rounds = 1.;
  double mean = 0.;  ///< how many of the rounds come before the one that stands for them
};

/// Told of each step of a replay before it is taken: its first round, counted from 0, how many rounds it is, and of
/// each action the loss, the bonus b that will be taken off it, and the probability pi_k(a).
using step_observer = std::function<void(
    std::size_t first, std::size_t rounds, const double* losses, const double* bonuses, const double* pi)>;

/// The policies pi_1, pi_2, .. of one context, one step for each past predictor.
///
/// Weights are kept as logarithms, so that an action whose probability underflows can come back. An action is live if
/// its weight is more than exp(-37) of the largest (NEGLIGIBLE, step.h); the others have probability 0. With the
/// learning rates that work well few are live, mostly one. So a stretch of rounds is tried with these alone, one
/// needing no exponentials, and the others take all its rounds at once; if one of them became live on the way, it is
/// tried again with that too.
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

  const double* probabilities() const { return _all.pi.data(); }

private:
  /// Where the recursion is, for all actions or for some of them. Arrays go up to a multiple of LANES: what is there
  /// beyond the actions is as the first action.
  class state
  {
  public:
    std::size_t actions = 0;
    std::vector<double> pi;
    std::vector<double> log_weights;  ///< relative to the largest
    std::vector<double> counts;       ///< 1 + N(a), N(a) = sum_{i<k} pi_i(a)
    bool one_live = false;            ///< after the last step

    void start(std::size_t count);
    /// Some of the actions of another.
    void start(const state& from, const std::vector<std::size_t>& those);
    void copy(std::size_t action, const state& from, std::size_t action_there);
    /// \param losses of each round, of each action and up to a multiple of LANES
    /// \param drops what the largest log weight loses in each round
    void step(
        const double* losses, const double* half_betas, std::size_t rounds, const step_factors& factors, double* drops);

  private:
    std::vector<double> _real;  ///< 1 for actions, 0 beyond

    void resize(std::size_t count);
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
  std::vector<double> _padded;           ///< losses of one round
  std::vector<decayed_rounds> _decayed;  ///< over 0, 1, 2, .. rounds

  // Of a stretch:
  std::vector<double> _powers;       ///< of decay, what is left of each round at the end
  std::vector<char> _is_active;      ///< of each action: stepped round by round
  std::vector<std::size_t> _active;  ///< those
  std::vector<std::size_t> _others;
  state _active_state;
  std::vector<double> _active_losses;  ///< of each round, of each of them
  std::vector<double> _log_weights;    ///< of the others

  void compute_half_betas(std::size_t rounds);
  const double* padded(const double* losses, std::size_t stride);
  void step_round(const double* losses, double half_beta, const step_factors& factors);
  void step_several(const double* losses, uint32_t rounds);
  decayed_rounds decay_over(uint32_t rounds);
  uint32_t rounds_alike(const double* losses, uint32_t at_most) const;
  double half_beta(double k) const;
  void observe(const step_observer& observer, const double* losses, uint32_t rounds);
  void step_stretch(std::size_t first_in_block);
  void step_active(std::size_t first_in_block, double* drops);
};
}  // namespace opo_cmab
