#pragma once

#include "kernel/recursion.h"
#include "kernel/settings.h"

#include <cstddef>
#include <vector>

namespace opo_cmab
{
/// Steps through a stretch of rounds at once, exactly. With the learning rates that work well few actions are active
/// (NEGLIGIBLE, lanes.h), mostly one. So we step only these, which takes no exponentials if it is one, and advance the
/// others over the whole stretch in one go; if one of them became active on the way, we step again with it.
class active_set
{
public:
  static constexpr std::size_t STRETCH = 16;

  void start(const policy_settings& settings, std::size_t actions);

  /// \param losses of each action, `stride` apart, of each round
  /// \param half_betas of each round
  void step(recursion& all, const double* losses, std::size_t stride, const double* half_betas);

private:
  policy_settings _settings;
  std::vector<double> _powers;       ///< of decay, what is left of each round at the end
  std::vector<char> _is_active;      ///< of each action
  std::vector<std::size_t> _active;  ///< those
  std::vector<std::size_t> _others;
  recursion _active_recursion;
  std::vector<double> _active_losses;  ///< of each round, of each of them
  std::vector<double> _log_weights;    ///< of the others

  void step_active(
      const recursion& all, const double* losses, std::size_t stride, const double* half_betas, double* drops);
};
}  // namespace opo_cmab
