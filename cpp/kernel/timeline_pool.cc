#include "kernel/timeline_pool.h"

#include <algorithm>
#include <stdexcept>

namespace
{
/// Entries that a room holds: 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ..
uint32_t entries_in(uint32_t room) { return room < 2 ? room + 2 : (4 + (room - 2) % 4) << ((room - 2) / 4); }

uint32_t room_for(uint32_t size)
{
  uint32_t room = 0;
  while (entries_in(room) < size) { ++room; }
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
  const uint32_t size = entries_in(room);
  if (_used + size > CHUNK)
  {
    if (_chunks.size() >= UINT32_MAX / CHUNK) { throw std::length_error("the history of the weights is too large"); }
    _chunks.emplace_back(new chunk);
    _used = 0;
  }
  const uint32_t where = static_cast<uint32_t>(_chunks.size() - 1) * CHUNK + _used;
  _used += size;
  return where;
}

uint32_t timeline_pool::insert(const timeline_entry* from, uint32_t size)
{
  const uint32_t where = allocate(room_for(size));
  for (uint32_t k = 0; k < size; ++k)
  {
    predictors(where)[k] = from[k].predictor;
    values(where)[k] = from[k].value;
  }
  return where;
}

void timeline_pool::erase(uint32_t where, uint32_t size) { _free[room_for(size)].push_back(where); }

bool timeline_pool::full(uint32_t size) { return entries_in(room_for(size)) == size; }

uint32_t timeline_pool::append(uint32_t where, uint32_t size, timeline_entry entry)
{
  if (full(size))
  {
    const uint32_t larger = allocate(room_for(size + 1));
    std::copy_n(predictors(where), size, predictors(larger));
    std::copy_n(values(where), size, values(larger));
    erase(where, size);
    where = larger;
  }
  predictors(where)[size] = entry.predictor;
  values(where)[size] = entry.value;
  return where;
}

std::size_t timeline_pool::bytes() const
{
  std::size_t total = _chunks.size() * sizeof(chunk) + _chunks.capacity() * sizeof(_chunks[0]);
  for (const auto& freed : _free) { total += sizeof(freed) + freed.capacity() * sizeof(uint32_t); }
  return total;
}
}  // namespace opo_cmab
