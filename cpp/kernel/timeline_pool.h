#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace opo_cmab
{
/// A value that a weight took, and the first predictor that has it.
class timeline_entry
{
public:
  uint32_t predictor;
  float value;
};

/// Timelines of single weights, in little more memory than their entries take: most are short. The first entry is
/// the value before any change; its predictor says nothing.
class timeline_pool
{
public:
  static constexpr uint32_t MOST_ENTRIES = 6143;  ///< of a timeline

  /// A timeline of a copy of these entries. \return where it is, until it grows or is erased
  uint32_t insert(const timeline_entry* entries, uint32_t count);
  void erase(uint32_t where);
  /// Whether one more entry takes more room.
  bool full(uint32_t where) const;
  /// One more entry. \return where the timeline is now
  uint32_t append(uint32_t where, timeline_entry entry);
  /// Other entries, which are not in the pool. \return where the timeline is now
  uint32_t assign(uint32_t where, const timeline_entry* entries, uint32_t count);

  uint32_t size(uint32_t where) const { return unit(where)->predictor & 0xffffff; }
  const timeline_entry* entries(uint32_t where) const { return unit(where) + 1; }
  timeline_entry* entries(uint32_t where) { return unit(where) + 1; }
  void prefetch(uint32_t where) const
  {
    const auto* first = reinterpret_cast<const char*>(unit(where));
    __builtin_prefetch(first);
    __builtin_prefetch(first + 64);
  }
  std::size_t bytes() const;

private:
  // Memory comes in chunks, whose units are entries. A timeline takes some units side by side, the first of which holds
  // its size and which of some room it takes. What is freed is kept for others that need as much.
  static constexpr uint32_t CHUNK = 8192;
  std::vector<std::unique_ptr<timeline_entry[]>> _chunks;
  uint32_t _used = CHUNK;                    ///< units of the last chunk
  std::vector<std::vector<uint32_t>> _free;  ///< of each room

  uint32_t allocate(uint32_t room);
  timeline_entry* unit(uint32_t where) { return &_chunks[where / CHUNK][where % CHUNK]; }
  const timeline_entry* unit(uint32_t where) const { return &_chunks[where / CHUNK][where % CHUNK]; }
};
}  // namespace opo_cmab
