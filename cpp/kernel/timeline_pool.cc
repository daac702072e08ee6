#include "kernel/timeline_pool.h"

#include <algorithm>
#include <stdexcept>

namespace opo_cmab
{
constexpr uint32_t timeline_pool::CHUNK;
constexpr uint32_t timeline_pool::MOST_ENTRIES;

uint32_t timeline_pool::allocate(uint32_t size)
{
  const uint32_t number = number_of_capacity(size);
  if (_free.size() <= number) { _free.resize(number + std::size_t{1}); }
  if (!_free[number].empty())
  {
    const uint32_t where = _free[number].back();
    _free[number].pop_back();
    return where;
  }
  const uint32_t room = capacity(size);
  if (_used + room > CHUNK)
  {
    if (_chunks.size() >= UINT32_MAX / CHUNK) { throw std::length_error("the history of the weights is too large"); }
    _chunks.emplace_back(new unsigned char[CHUNK * ENTRY]);
    _used = 0;
  }
  const uint32_t where = static_cast<uint32_t>(_chunks.size() - 1) * CHUNK + _used;
  _used += room;
  return where;
}

uint32_t timeline_pool::insert(const timeline_entry* from, uint32_t size)
{
  const uint32_t where = allocate(size);
  auto* its_predictors = predictors(where);
  auto* its_values = values(where, size);
  for (uint32_t k = 0; k < size; ++k)
  {
    its_predictors[k] = from[k].predictor;
    its_values[k] = from[k].value;
  }
  return where;
}

void timeline_pool::erase(uint32_t where, uint32_t size) { _free[number_of_capacity(size)].push_back(where); }

uint32_t timeline_pool::append(uint32_t where, uint32_t size, timeline_entry entry)
{
  if (capacity(size) == size)
  {
    const uint32_t larger = allocate(size + 1);
    std::copy_n(predictors(where), size, predictors(larger));
    std::copy_n(values(where, size), size, values(larger, size + 1));
    erase(where, size);
    where = larger;
  }
  predictors(where)[size] = entry.predictor;
  values(where, size + 1)[size] = entry.value;
  return where;
}

std::size_t timeline_pool::bytes() const
{
  std::size_t total = _chunks.size() * CHUNK * ENTRY + _chunks.capacity() * sizeof(_chunks[0]);
  for (const auto& freed : _free) { total += sizeof(freed) + freed.capacity() * sizeof(uint32_t); }
  return total;
}
}  // namespace opo_cmab
