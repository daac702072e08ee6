#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// Finds the segment of a round, by its age, without a search.
class segment_finder
{
public:
  void start(const segments& past)
  {
    _past = &past;
    _ready = false;
  }

  /// A change that takes effect with a round, which must be past: it counts for a part of the round's segment, and for
  /// all that come after.
  void add(double* changes, uint32_t round, double change)
  {
    if (!_ready) { prepare(); }
    const uint32_t* starts = _past->starts().data();
    std::size_t segment = _first_of_bucket[bucket(_past->rounds() - 1 - round)];
    while (starts[segment + 1] <= round) { ++segment; }
    const double now = change * ((starts[segment + 1] - round) * _inverse_lengths[segment]);
    changes[segment] += now;
    changes[segment + 1] += change - now;  // one more than there are segments
  }

private:
  const segments* _past = nullptr;
  bool _ready = false;
  std::vector<uint32_t> _first_of_bucket;  ///< of ages: the segment of the oldest round in it
  std::vector<double> _inverse_lengths;    ///< of segments

  /// Ages below 16 have their own buckets, others share one if their first four bits are the same.
  static std::size_t bucket(uint32_t age)
  {
    if (age < 16) { return age; }
    const auto bits = static_cast<std::size_t>(31 - __builtin_clz(age));
    return 16 + (bits - 4) * 8 + ((age >> (bits - 3)) & 7);
  }

  void prepare();
};
}  // namespace opo_cmab
