#include "kernel/segments.h"

#include <utility>

namespace opo_cmab
{
void segments::append()
{
  ++_rounds;
  if (_budget == 0) { return; }
  _starts.push_back(_rounds);
  // Merged some at a time, which costs less. Once there are long segments, a quarter of the budget is left to them: a
  // long segment may take several steps.
  const bool merged = size() < _rounds;
  if (size() > (merged ? 3 * _budget / 4 : _budget)) { merge_down_to(_budget / 2); }
}

/// Merges the two neighbours that are the shortest for their distance from both ends, again and again.
void segments::merge_down_to(std::size_t size)
{
  while (_starts.size() - 1 > size)
  {
    std::size_t best = 1;
    double lowest = 2. + _rounds;
    for (std::size_t i = 1; i + 1 < _starts.size(); ++i)
    {
      const uint32_t first = _starts[i - 1];
      const uint32_t end = _starts[i + 1];
      const double cost = static_cast<double>(end - first) / (1. + std::min(first, _rounds - end));
      if (cost < lowest)
      {
        lowest = cost;
        best = i;
      }
    }
    _starts.erase(_starts.begin() + best);
  }
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
