#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
constexpr uint32_t NONE = UINT32_MAX;  ///< the number of no weight, of no cohort

/// Weight -> its number in the history. Open addressing: looked up for every feature of every prediction.
class weight_index
{
public:
  uint32_t find(uint64_t weight) const;
  void prefetch(uint64_t weight) const
  {
    if (!_slots.empty()) { __builtin_prefetch(&_slots[home(weight)]); }
  }
  void insert(uint64_t weight, uint32_t number);  ///< the weight must be new
  std::size_t bytes() const { return _slots.capacity() * sizeof(slot); }

private:
  class slot
  {
  public:
    uint64_t weight = 0;
    uint32_t number = NONE;
  };

  std::vector<slot> _slots;  // a power of 2
  std::size_t _used = 0;

  static uint64_t mix(uint64_t bits)  // the finalizer of MurmurHash3
  {
    bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdULL;
    bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return bits ^ (bits >> 33);
  }
  std::size_t home(uint64_t weight) const { return mix(weight) & (_slots.size() - 1); }
  std::size_t probe(uint64_t weight) const;
  void grow();
};
}  // namespace opo_cmab
