#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
constexpr uint32_t NONE = UINT32_MAX;  ///< no weight, or no cohort

/// Makes room for one more, a quarter more than there are rather than as many again.
template <typename T>
void make_room(std::vector<T>& values)
{
  if (values.size() == values.capacity()) { values.reserve(values.size() + values.size() / 4 + 16); }
}

/// Weights by their numbers, in 4 bytes each while they are below 2^32.
class weight_list
{
public:
  std::size_t size() const { return _low.size(); }
  uint64_t operator[](std::size_t i) const { return _low[i] | (_wide ? uint64_t{_high[i]} << 32 : 0); }
  void push_back(uint64_t weight)
  {
    _wide = _wide || weight > UINT32_MAX;
    if (_wide)
    {
      _high.resize(_low.size());
      _high.push_back(static_cast<uint32_t>(weight >> 32));
    }
    make_room(_low);
    _low.push_back(static_cast<uint32_t>(weight));
  }
  std::size_t bytes() const { return (_low.capacity() + _high.capacity()) * sizeof(uint32_t); }

private:
  std::vector<uint32_t> _low;
  bool _wide = false;  ///< some are not below 2^32
  std::vector<uint32_t> _high;
};

/// From a weight to its number in the history. Every prediction looks up every feature. A hash table with open
/// addressing, or a plain array if that takes less memory.
class weight_index
{
public:
  uint32_t find(uint64_t weight) const
  {
    if (weight < _direct.size()) { return _direct[weight]; }
    return _slots.empty() ? NONE : _slots[probe(weight)].number;
  }
  void prefetch(uint64_t weight) const
  {
    if (weight < _direct.size()) { __builtin_prefetch(&_direct[weight]); }
    else if (!_slots.empty()) { __builtin_prefetch(&_slots[home(weight)]); }
  }
  void insert(uint64_t weight, uint32_t number);  ///< the weight must be new
  std::size_t bytes() const { return _slots.capacity() * sizeof(slot) + _direct.capacity() * sizeof(uint32_t); }

private:
  class slot
  {
  public:
    uint64_t weight = 0;
    uint32_t number = NONE;
  };

  std::vector<slot> _slots;  // a power of 2
  std::size_t _used = 0;
  uint64_t _largest = 0;
  std::vector<uint32_t> _direct;  ///< the number of each weight, for weights below its size

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
