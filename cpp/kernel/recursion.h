#pragma once

#include <cstddef>
#include <vector>

namespace opo_cmab
{
/// The policy recursion of one context, of all actions or of some: pi_k and what the next step needs. Weights are kept
/// as logarithms, so that an action whose probability underflows can come back. Arrays go up to a multiple of LANES:
/// what is there beyond the actions counts for nothing, and its weight must not be the largest. It is as the first
/// action, or its losses are WORST_LOSS.
class recursion
{
public:
  std::size_t actions = 0;
  std::vector<double> pi;
  std::vector<double> log_weights;  ///< relative to the largest
  std::vector<double> counts;       ///< 1 + N(a), N(a) = sum_{i<k} pi_i(a)
  std::vector<double> real;         ///< 1 for actions, 0 beyond

  /// pi_1: uniform
  void start(std::size_t count);
  /// Some of the actions of another.
  void start(const recursion& from, const std::vector<std::size_t>& those);
  void copy(std::size_t action, const recursion& from, std::size_t action_there);

  /// Steps through rounds, exactly.
  /// \param losses of each round, of each action and up to a multiple of LANES
  /// \param half_betas of each round
  /// \param drops of each round, set: what the largest log-weight loses
  void step(
      const double* losses, const double* half_betas, std::size_t rounds, double decay, double eta, double* drops);

private:
  void resize(std::size_t count);
};
}  // namespace opo_cmab
