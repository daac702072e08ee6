#include "kernel/weight_index.h"

#include <algorithm>

namespace opo_cmab
{
uint32_t weight_index::find(uint64_t weight) const { return _slots.empty() ? NONE : _slots[probe(weight)].number; }

void weight_index::insert(uint64_t weight, uint32_t number)
{
  if (2 * _used >= _slots.size()) { grow(); }
  auto& slot = _slots[probe(weight)];
  slot.weight = weight;
  slot.number = number;
  ++_used;
}

/// Where the weight is, or would be.
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
  for (const auto& slot : old)
  {
    if (slot.number != NONE) { _slots[probe(slot.weight)] = slot; }
  }
}
}  // namespace opo_cmab
