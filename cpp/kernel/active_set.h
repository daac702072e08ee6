#pragma once

#include "kernel/recursion.h"
#include "kernel/settings.h"

#include <cstddef>
#include <vector>

namespace opo_cmab
{
/// Steps through a whole stretch of rounds, exactly. With good learning rates few actions are active (NEGLIGIBLE,
/// width.h), mostly one. So we step only the active ones, without any exponential if there is one, and advance the
/// inactive ones over the whole stretch in one go. If one of them became active, we repeat the stretch with it. If a
/// third of the actions, and more than one, are active, we step all.
class active_set
{
public:
  static constexpr std::size_t STRETCH = 64;

  void start(const policy_settings& settings, std::size_t actions);

  /// \param losses by round and action, padded as the recursion
  /// \param half_betas by round
  void step(recursion& all, const double* losses, const double* half_betas);

private:
  policy_settings _settings;
  std::vector<double> _powers;       ///< of decay: the factor of each round's loss at the end
  std::vector<char> _is_active;      ///< by action, padded with 1
  std::vector<std::size_t> _active;  ///< the numbers of the active actions
  recursion _active_recursion;
  std::vector<double> _active_losses;  ///< by round and active action
  std::vector<double> _log_weights;    ///< of the inactive actions

  void step_active(const recursion& all, const double* losses, const double* half_betas, double* drops);
};
}  // namespace opo_cmab
