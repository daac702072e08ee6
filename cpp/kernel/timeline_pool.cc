#include "kernel/timeline_pool.h"

#include <algorithm>

namespace
{
/// Units of each room: steps of a half and a third, from a timeline of one change on.
uint32_t units_of(uint32_t room) { return (room % 2 == 0 ? 3U : 4U) << (room / 2); }

uint32_t room_for(uint32_t entries)
{
  uint32_t room = 0;
  while (units_of(room) < entries + 1) { ++room; }
  return room;
}
}  // namespace

namespace opo_cmab
{
constexpr uint32_t timeline_pool::CHUNK;
constexpr uint32_t timeline_pool::MOST_ENTRIES;

uint32_t timeline_pool::allocate(uint32_t room)
{
  if (_free.size() <= room) { _free.resize(room + std::size_t{1}); }
  if (!_free[room].empty())
  {
    const uint32_t where = _free[room].back();
    _free[room].pop_back();
    return where;
  }
  const uint32_t units = units_of(room);
  if (_used + units > CHUNK)
  {
    _chunks.emplace_back(new timeline_entry[CHUNK]);
    _used = 0;
  }
  const uint32_t where = static_cast<uint32_t>(_chunks.size() - 1) * CHUNK + _used;
  _used += units;
  return where;
}

uint32_t timeline_pool::insert(const timeline_entry* entries, uint32_t count)
{
  const uint32_t room = room_for(count);
  const uint32_t where = allocate(room);
  unit(where)->predictor = room << 24 | count;
  std::copy_n(entries, count, unit(where) + 1);
  return where;
}

void timeline_pool::erase(uint32_t where) { _free[unit(where)->predictor >> 24].push_back(where); }

bool timeline_pool::full(uint32_t where) const { return size(where) + 1 == units_of(unit(where)->predictor >> 24); }

uint32_t timeline_pool::append(uint32_t where, timeline_entry entry)
{
  if (full(where))
  {
    const uint32_t room = (unit(where)->predictor >> 24) + 1;
    const uint32_t larger = allocate(room);
    const uint32_t count = size(where);
    unit(larger)->predictor = room << 24 | count;
    std::copy_n(entries(where), count, unit(larger) + 1);
    erase(where);
    where = larger;
  }
  unit(where)[1 + size(where)] = entry;
  ++unit(where)->predictor;
  return where;
}

uint32_t timeline_pool::assign(uint32_t where, const timeline_entry* entries, uint32_t count)
{
  erase(where);
  return insert(entries, count);
}

std::size_t timeline_pool::bytes() const
{
  std::size_t total = _chunks.size() * CHUNK * sizeof(timeline_entry) + _chunks.capacity() * sizeof(_chunks[0]);
  for (const auto& freed : _free) { total += sizeof(freed) + freed.capacity() * sizeof(uint32_t); }
  return total;
}
}  // namespace opo_cmab
