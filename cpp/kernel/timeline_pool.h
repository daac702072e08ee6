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

/// Timelines of single weights, in little more memory than their entries take: most are short. The first entry is the
/// value before any change; its predictor says nothing. Whoever asks for one knows its size.
class timeline_pool
{
public:
  static constexpr uint32_t MOST_ENTRIES = 7168;  ///< of a timeline

  /// A timeline of a copy of these entries. \return where it is, until it grows or is erased
  uint32_t insert(const timeline_entry* from, uint32_t size);
  void erase(uint32_t where, uint32_t size);
  /// One more entry. \return where the timeline is now
  uint32_t append(uint32_t where, uint32_t size, timeline_entry entry);
  /// Whether one more entry takes more room.
  static bool full(uint32_t size);

  uint32_t* predictors(uint32_t where) { return &_chunks[where / CHUNK]->predictors[where % CHUNK]; }
  const uint32_t* predictors(uint32_t where) const { return &_chunks[where / CHUNK]->predictors[where % CHUNK]; }
  float* values(uint32_t where) { return &_chunks[where / CHUNK]->values[where % CHUNK]; }
  const float* values(uint32_t where) const { return &_chunks[where / CHUNK]->values[where % CHUNK]; }
  std::size_t bytes() const;

private:
  // Memory comes in chunks. Timelines of some sizes have the same room; what one leaves is kept for the next.
  static constexpr uint32_t CHUNK = 8192;  ///< entries
  class chunk
  {
  public:
    uint32_t predictors[CHUNK];
    float values[CHUNK];
  };
  std::vector<std::unique_ptr<chunk>> _chunks;
  uint32_t _used = CHUNK;                    ///< entries of the last chunk
  std::vector<std::vector<uint32_t>> _free;  ///< of each room

  uint32_t allocate(uint32_t room);
};
}  // namespace opo_cmab
