#pragma once

#include "kernel/policy.h"

#include <cstddef>
#include <cstdint>
#include <vector>

// The policies of many contexts at once. policy.h steps through the rounds of one context; here each instruction works
// on several contexts, side by side in memory. Pure math, without VW.
namespace opo_cmab
{
/// The policies pi_1, pi_2, .. of a batch of contexts that have the same number of actions.
///
/// The computation, and which actions are active, is as in class policy. An action that is active in no context of a
/// group costs only a few instructions, so contexts with the same best actions should be neighbours.
class policy_batch
{
public:
  /// pi_1: uniform
  /// \param scales the factor on the bonuses of each context; empty: 1
  policy_batch(
      const policy_settings& settings, std::size_t contexts, std::size_t actions, std::vector<double> scales = {});

  /// Past rounds, in runs with the same predictors.
  class runs
  {
  public:
    std::size_t count = 0;
    const int64_t* lengths = nullptr;     ///< in rounds
    const int64_t* rows = nullptr;        ///< by run and action: the predictor's row in predictions
    const double* predictions = nullptr;  ///< by predictor and context, padded to row_size; not clipped
    std::size_t row_size = 0;             ///< a multiple of GROUP; the padding may hold any predictions
  };

  /// Steps through past rounds, exactly.
  void step(const runs& past);

  /// \param result by context and action
  void probabilities(double* result) const;

  /// Contexts side by side: enough to hide the latency of instructions, few enough to keep few actions active.
  static constexpr std::size_t GROUP = 8;

  /// An action in a group of contexts.
  class action_state
  {
  public:
    double log_weight[GROUP];
    double pi[GROUP];
    double count[GROUP];  ///< 1 + N
    double inverse_count[GROUP];
    bool active;  ///< in any of the contexts
  };

private:
  policy_settings _settings;
  std::size_t _contexts;
  std::size_t _actions;
  std::size_t _rounds = 0;            ///< rounds stepped through so far
  std::vector<action_state> _states;  ///< by group and action
  std::vector<double> _scales;        ///< by context, padded to a multiple of GROUP
};
}  // namespace opo_cmab
