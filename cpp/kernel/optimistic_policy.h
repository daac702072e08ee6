#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace opo_cmab
{
/// The decision of --opo_cmab on least squares: exponential weights on optimistic losses,
///
///   p(a) ~ exp(-ETA clip(f(a) - b(a), 0, 1)),   b(a) = SCALE sqrt(f* + LEAST) min(WIDEST, sqrt(v(a))),
///
/// with f the predicted losses, f* the lowest of them, and v the variances of the predictions. The spread of costs near
/// the lowest is about the square root of the lowest, as it is for clicks.
class optimistic_policy
{
public:
  static constexpr double ETA = 500.;
  static constexpr double SCALE = 0.5;
  static constexpr double WIDEST = 1.5;  ///< contexts with many unseen features would be explored for ever
  static constexpr double LEAST = 0.02;  ///< of f*, so that a perfect prediction is not trusted at once

  std::vector<double> losses;
  std::vector<double> bonuses;
  std::vector<double> probabilities;

  /// Decides on losses.
  /// \param variances v
  /// \param shift is taken off the losses before they are clipped
  void decide(const std::vector<double>& variances, double shift)
  {
    const double lowest = *std::min_element(losses.begin(), losses.end());
    const double spread = SCALE * std::sqrt(std::min(1., std::max(0., lowest)) + LEAST);
    bonuses.clear();
    probabilities.clear();
    for (std::size_t a = 0; a < losses.size(); ++a)
    {
      losses[a] -= shift;
      bonuses.push_back(spread * std::sqrt(std::min(WIDEST * WIDEST, std::max(0., variances[a]))));
      probabilities.push_back(std::min(1., std::max(0., losses[a] - bonuses[a])));
    }
    const double best = *std::min_element(probabilities.begin(), probabilities.end());
    double sum = 0.;
    for (auto& p : probabilities)
    {
      p = std::exp(-ETA * (p - best));
      sum += p;
    }
    for (auto& p : probabilities) { p /= sum; }
  }
};
}  // namespace opo_cmab
