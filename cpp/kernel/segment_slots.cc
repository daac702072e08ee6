#include "kernel/segment_slots.h"

#include <algorithm>

namespace opo_cmab
{
constexpr uint32_t segment_slots::RING;

void segment_slots::label(const segments& past, range rounds, uint32_t slot)
{
  for (uint32_t round = std::max(rounds.first, first_remembered(past)); round < rounds.end; ++round)
  {
    _slot_of_round[round % RING] = static_cast<uint16_t>(slot);
  }
}

void segment_slots::append(const segments& past, std::size_t merged)
{
  if (_slot_of_round.size() < RING) { _slot_of_round.push_back(0); }
  if (_rounds.size() <= _free) { _rounds.emplace_back(); }
  const range now = make_range(past.rounds() - 1, past.rounds());
  label(past, now, _free);
  _rounds[_free] = now;
  _slots.push_back(_free);
  _free = static_cast<uint32_t>(_slots.size());
  if (merged == segments::NONE_MERGED) { return; }

  // Of the two that were merged, the one of more rounds keeps its slot.
  uint32_t kept = _slots[merged];
  uint32_t freed = _slots[merged + 1];
  const range both = make_range(_rounds[kept].first, _rounds[freed].end);
  const auto length = [this](uint32_t slot) { return _rounds[slot].end - _rounds[slot].first; };
  if (length(kept) < length(freed)) { std::swap(kept, freed); }
  label(past, _rounds[freed], kept);
  _rounds[kept] = both;
  _slots[merged] = kept;
  _slots.erase(_slots.begin() + static_cast<std::ptrdiff_t>(merged) + 1);
  _free = freed;
}

void segment_slots::restore(const segments& past)
{
  *this = segment_slots();
  _slot_of_round.resize(std::min(past.rounds(), RING));
  for (std::size_t i = 0; i < past.size(); ++i)
  {
    const auto slot = static_cast<uint32_t>(i);
    const range rounds = make_range(past.first(i), past.first(i + 1));
    label(past, rounds, slot);
    _rounds.push_back(rounds);
    _slots.push_back(slot);
  }
  _free = static_cast<uint32_t>(_slots.size());
}

void segment_slots::spread(change_sums* sums, std::size_t first, double* changes) const
{
  double after = 0.;  // of the segment before: what counts for the next
  for (std::size_t i = first; i < _slots.size(); ++i)
  {
    auto& sum = sums[_slots[i]];
    const auto& rounds = _rounds[_slots[i]];
    const double now = (rounds.end * sum.changes - sum.weighted) * rounds.inverse_length;
    changes[i] += after + now;
    after = sum.changes - now;
    sum = {0., 0.};
  }
}

std::size_t segment_slots::bytes() const
{
  return _slot_of_round.capacity() * sizeof(uint16_t) + _slots.capacity() * sizeof(uint32_t) +
      _rounds.capacity() * sizeof(range);
}
}  // namespace opo_cmab
