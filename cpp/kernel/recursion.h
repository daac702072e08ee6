#pragma once

#include <cstddef>
#include <vector>

namespace opo_cmab
{
/// The policy recursion of one context, for all actions or some: pi_k and the state for the next step. Weights are kept
/// as logarithms, so that an action can come back after its probability underflows. Arrays are padded to a multiple of
/// LANES. Padding must not have the largest weight: it copies the first action, or its losses are WORST_LOSS.
class recursion
{
public:
  std::size_t actions = 0;
  std::vector<double> pi;
  std::vector<double> log_weights;  ///< relative to the largest
  std::vector<double> counts;       ///< 1 + N(a), N(a) = sum_{i<k} pi_i(a)
  std::vector<double> real;         ///< 1 for actions, 0 for padding

  /// pi_1: uniform
  void start(std::size_t count);
  /// Starts with some of the actions of another recursion.
  void start(const recursion& from, const std::vector<std::size_t>& those);
  void copy(std::size_t action, const recursion& from, std::size_t action_there);

  /// Steps through rounds, exactly.
  /// \param losses by round and action, padded to a multiple of LANES
  /// \param half_betas by round
  /// \param drops output, by round: the drop of the largest log-weight
  void step(
      const double* losses, const double* half_betas, std::size_t rounds, double decay, double eta, double* drops);

private:
  void resize(std::size_t count);
};
}  // namespace opo_cmab
