#pragma once

#include "kernel/policy.h"

#include <cstddef>
#include <cstdint>
#include <vector>

// The policies of many contexts at once. policy.h steps through the rounds of one context; here each instruction works
// on several contexts, which lie side by side. Pure math, nothing of VW.
namespace opo_cmab
{
/// The policies pi_1, pi_2, .. of a batch of contexts that have the same number of actions.
///
/// What is computed, and which actions are active, is as in class policy. Of a group of contexts, an action that is
/// active in none costs a few instructions only: contexts that have the same best actions should be neighbours.
class policy_batch
{
public:
  /// pi_1: uniform
  /// \param scales of each context: what its bonuses are multiplied by; none: 1
  policy_batch(
      const policy_settings& settings, std::size_t contexts, std::size_t actions, std::vector<double> scales = {});

  /// Past rounds, in runs through which the predictors were the same.
  class runs
  {
  public:
    std::size_t count = 0;
    const int64_t* lengths = nullptr;     ///< in rounds
    const int64_t* rows = nullptr;        ///< of each run, of each action: the predictor's row in predictions
    const double* predictions = nullptr;  ///< of each predictor, of each context and up to row_size; not clipped
    std::size_t row_size = 0;  ///< a multiple of GROUP: predictions for contexts that are not there do no harm
  };

  /// Steps through past rounds, exactly.
  void step(const runs& past);

  /// \param result of each context, of each action
  void probabilities(double* result) const;

  /// Contexts side by side: enough vectors to work on one while others wait, few enough to have few actions active.
  static constexpr std::size_t GROUP = 8;

  /// An action in a group of contexts.
  class action_state
  {
  public:
    double log_weight[GROUP];
    double pi[GROUP];
    double count[GROUP];  ///< 1 + N
    double inverse_count[GROUP];
    bool active;  ///< in any of them
  };

private:
  policy_settings _settings;
  std::size_t _contexts;
  std::size_t _actions;
  std::size_t _rounds = 0;            ///< stepped through so far
  std::vector<action_state> _states;  ///< of each group, of each action
  std::vector<double> _scales;        ///< of each context, up to a multiple of GROUP
};
}  // namespace opo_cmab
