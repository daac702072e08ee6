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

  std::size_t probe(uint64_t weight) const;
  void grow();
};
}  // namespace opo_cmab
