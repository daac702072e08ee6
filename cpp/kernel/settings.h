#pragma once

#include <cmath>
#include <cstddef>

namespace opo_cmab
{
/// The learning rate eta; the size of the exploration bonus, a constant beta as in Algorithm 1, or beta_k = gamma
/// sqrt(k / |A|); and the decay: pi_{k+1}(a) ~ pi_k(a)^decay exp(-eta loss). Algorithm 1 has a decay of 1.
class policy_settings
{
public:
  double eta = 0.;
  double decay = 1.;  ///< in [0, 1]
  double gamma = 0.;
  double beta = -1.;  ///< below 0: use gamma

  /// Whether beta_k is a constant beta.
  bool beta_is_constant() const { return beta >= 0.; }
  /// beta_k / 2; if it is not constant, to be multiplied by sqrt(k).
  double half_beta_factor(std::size_t actions) const
  {
    return 0.5 * (beta_is_constant() ? beta : gamma / std::sqrt(static_cast<double>(actions)));
  }
  /// beta_k / 2
  double half_beta(double k, std::size_t actions) const
  {
    return half_beta_factor(actions) * (beta_is_constant() ? 1. : std::sqrt(k));
  }
};
}  // namespace opo_cmab
