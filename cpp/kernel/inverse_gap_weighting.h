#pragma once

#include <algorithm>
#include <iterator>

namespace opo_cmab
{
/// Inverse gap weighting (Abe and Long 1999; Foster and Rakhlin 2020), in place: costs become probabilities.
///
///   p(a) = 1 / (n + gamma (f(a) - f*))   for all n actions but the best, which gets the rest; f* = min f
///
/// \param gamma at least 0; with infinity only the best actions have a probability
template <typename It>
void inverse_gap_weighting(It first, It last, double gamma)
{
  It best = std::min_element(first, last);
  const double lowest = *best;
  const auto n = static_cast<double>(std::distance(first, last));

  double rest = 1.;
  for (It it = first; it != last; ++it)
  {
    if (it == best) { continue; }
    const double gap = *it - lowest;
    const double p = gap > 0. ? 1. / (n + gamma * gap) : 1. / n;  // avoids infinity * 0
    *it = static_cast<float>(p);
    rest -= p;
  }
  *best = static_cast<float>(rest);
}
}  // namespace opo_cmab
