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

  /// beta_k / 2
  double half_beta(double k, std::size_t actions) const
  {
    return 0.5 * (beta >= 0. ? beta : gamma * std::sqrt(k / static_cast<double>(actions)));
  }
};
}  // namespace opo_cmab
