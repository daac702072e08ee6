#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// Spreads the changes of timelines over the segments. The segment of a round is looked up by the round's age.
class segment_finder
{
public:
  void start(const segments& past)
  {
    _past = &past;
    _ready = false;
  }

  /// Adds a timeline: x times the change to values[k + 1] takes effect with the round predictors[k], which must be
  /// past. It counts for a part of the round's segment, and for all that come after. \param changes of each segment and
  /// one beyond
  template <typename Value>
  void add(double* changes, double x, const Value* values, const uint32_t* predictors, std::size_t count)
  {
    if (count == 0) { return; }
    if (!_ready) { prepare(); }
    const uint32_t* starts = _past->starts().data();
    std::size_t segment = find(predictors[0]);
    uint32_t end = starts[segment + 1];
    double inverse_length = _inverse_lengths[segment];
    double here = 0.;   // still to be added to the segment,
    double after = 0.;  // and to the next
    double before = values[0];
    for (std::size_t k = 0; k < count; ++k)
    {
      const uint32_t round = predictors[k];
      if (round >= end)
      {
        changes[segment++] += here;
        here = after;
        after = 0.;
        if (round >= starts[segment + 1])
        {
          changes[segment] += here;
          here = 0.;
          segment = find(round);
        }
        end = starts[segment + 1];
        inverse_length = _inverse_lengths[segment];
      }
      const double value = values[k + 1];
      const double change = x * (value - before);
      const double now = change * (static_cast<double>(end - round) * inverse_length);
      before = value;
      here += now;
      after += change - now;
    }
    changes[segment] += here;
    changes[segment + 1] += after;
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

  std::size_t find(uint32_t round) const
  {
    const uint32_t* starts = _past->starts().data();
    std::size_t segment = _first_of_bucket[bucket(_past->rounds() - 1 - round)];
    while (starts[segment + 1] <= round) { ++segment; }
    return segment;
  }
  void prepare();
};
}  // namespace opo_cmab
