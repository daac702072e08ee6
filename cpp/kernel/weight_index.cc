#include "kernel/weight_index.h"

#include <algorithm>

namespace opo_cmab
{
namespace
{
constexpr std::size_t SMALL = std::size_t{1} << 18;  // as many numbers as VW's default has: 1 MB
}

void weight_index::insert(uint64_t weight, uint32_t number)
{
  _largest = std::max(_largest, weight);
  if (weight >= _direct.size() && 2 * _used >= _slots.size()) { grow(); }
  if (weight < _direct.size())
  {
    _direct[weight] = number;
    return;
  }
  auto& slot = _slots[probe(weight)];
  slot.weight = weight;
  slot.number = number;
  ++_used;
}

/// The slot of a weight, or the free slot for it.
std::size_t weight_index::probe(uint64_t weight) const
{
  const std::size_t mask = _slots.size() - 1;
  std::size_t i = home(weight);
  while (_slots[i].number != NONE && _slots[i].weight != weight) { i = (i + 1) & mask; }
  return i;
}

void weight_index::grow()
{
  std::vector<slot> old(std::max<std::size_t>(64, 2 * _slots.size()));
  old.swap(_slots);
  const std::size_t bytes = _slots.size() * sizeof(slot);
  if (_largest < std::max(bytes / sizeof(uint32_t), SMALL))
  {
    std::size_t size = 64;
    while (size <= _largest) { size *= 2; }
    _direct.resize(size, NONE);
    _slots.clear();
    _slots.shrink_to_fit();
    _used = 0;
  }
  for (const auto& slot : old)
  {
    if (slot.number == NONE) { continue; }
    if (slot.weight < _direct.size()) { _direct[slot.weight] = slot.number; }
    else { _slots[probe(slot.weight)] = slot; }
  }
}
}  // namespace opo_cmab
