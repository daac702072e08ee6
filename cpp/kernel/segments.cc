#include "kernel/segments.h"

#include <cmath>
#include <utility>

namespace opo_cmab
{
constexpr std::size_t segments::NONE_MERGED;

std::size_t segments::append()
{
  ++_rounds;
  if (_budget == 0) { return NONE_MERGED; }
  _starts.push_back(_rounds);
  if (size() <= _budget) { return NONE_MERGED; }
  const std::size_t merged = shortest_for_its_age();
  _starts.erase(_starts.begin() + static_cast<std::ptrdiff_t>(merged) + 1);
  return merged;
}

/// The pair of neighbours to merge next, the shortest for its age: returns the first of the two.
std::size_t segments::shortest_for_its_age() const
{
  std::size_t best = 0;
  double lowest = 2. + _rounds;
  for (std::size_t i = 0; i + 1 < size(); ++i)
  {
    const double age = 1. + (_rounds - _starts[i + 2]);
    const double score = static_cast<double>(_starts[i + 2] - _starts[i]) / std::sqrt(age * std::sqrt(age));
    if (score < lowest)
    {
      lowest = score;
      best = i;
    }
  }
  return best;
}

bool segments::restore(uint32_t rounds, std::vector<uint32_t> starts)
{
  const bool good = _budget == 0 ? starts.empty()
                                 : !starts.empty() && starts.front() == 0 && starts.back() == rounds &&
          starts.size() - 1 <= _budget && strictly_increasing(starts);
  if (!good) { return false; }
  _rounds = rounds;
  if (_budget != 0) { _starts = std::move(starts); }
  return true;
}
}  // namespace opo_cmab
