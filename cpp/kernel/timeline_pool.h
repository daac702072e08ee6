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

/// Timelines of single weights, in little more memory than their entries take: most are short. The predictors of a
/// timeline lie side by side, and right after them its values, so that reading a short one touches one cache line or
/// two. The first entry is the value before any change; its predictor says nothing. Whoever asks for one knows its
/// size.
class timeline_pool
{
public:
  static constexpr uint32_t MOST_ENTRIES = 7168;  ///< of a timeline

  /// A timeline of a copy of these entries. \return where it is, until it grows or is erased
  uint32_t insert(const timeline_entry* from, uint32_t size);
  void erase(uint32_t where, uint32_t size);
  /// One more entry. \return where the timeline is now
  uint32_t append(uint32_t where, uint32_t size, timeline_entry entry);

  uint32_t* predictors(uint32_t where) const { return reinterpret_cast<uint32_t*>(place(where)); }
  float* values(uint32_t where, uint32_t size) const
  {
    return reinterpret_cast<float*>(place(where) + sizeof(uint32_t) * capacity(size));
  }
  std::size_t bytes() const;

private:
  // Memory comes in chunks. Timelines of some sizes have the same room; what one leaves is kept for the next.
  static constexpr uint32_t CHUNK = 8192;  ///< entries
  static constexpr std::size_t ENTRY = sizeof(uint32_t) + sizeof(float);
  std::vector<std::unique_ptr<unsigned char[]>> _chunks;
  uint32_t _used = CHUNK;                    ///< entries of the last chunk
  std::vector<std::vector<uint32_t>> _free;  ///< rooms, by the capacity: 2, 3, 4, .., 16, 18, .., 32, 36, ..

  unsigned char* place(uint32_t where) const { return &_chunks[where / CHUNK][where % CHUNK * ENTRY]; }

  /// A capacity above 16 is a multiple of 2 to this power: it has 4 significant bits.
  static uint32_t shift_of(uint32_t size)
  {
    return size <= 16 ? 0 : 28 - static_cast<uint32_t>(__builtin_clz(size - 1));
  }
  /// The entries that a timeline of this size has room for.
  static uint32_t capacity(uint32_t size)
  {
    const uint32_t shift = shift_of(size);
    return size < 2 ? 2 : (((size - 1) >> shift) + 1) << shift;
  }
  static uint32_t number_of_capacity(uint32_t size)
  {
    return 8 * shift_of(size) + (capacity(size) >> shift_of(size)) - 2;
  }
  uint32_t allocate(uint32_t size);
};
}  // namespace opo_cmab
