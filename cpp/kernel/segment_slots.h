#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// What changes of a prediction come to in a segment: their sum, and their sum weighted by the rounds that they take
/// effect with.
class change_sums
{
public:
  double changes;
  double weighted;
};

/// Which segment a round is in, for segments within a budget. A segment keeps its slot when others are merged, so that
/// a merge changes what is known of the rounds of two segments only.
class segment_slots
{
public:
  /// One more round has been appended. \param merged what segments::append returned
  void append(const segments& past, std::size_t merged);
  void restore(const segments& past);

  /// Slots are below this.
  std::size_t size() const { return _rounds.size(); }
  std::size_t bytes() const;

  /// Adds a timeline: x times the change from value(k) to value(k + 1) takes effect with round(k), in increasing order;
  /// those of rounds that are not past are left out. \param sums of each slot
  template <typename Round, typename Value>
  void add(change_sums* sums, const segments& past, double x, const Round& round, const Value& value,
      std::size_t count) const
  {
    const uint32_t* starts = past.starts().data();
    const uint32_t oldest = first_remembered(past);
    double before = value(0);
    std::size_t k = 0;
    std::size_t segment = 0;
    for (; k < count && round(k) < oldest; ++k)
    {
      while (starts[segment + 1] <= round(k)) { ++segment; }
      add_change(sums[_slots[segment]], round(k), x, before, value(k + 1));
    }
    while (count > k && round(count - 1) >= past.rounds()) { --count; }
    for (; k < count; ++k) { add_change(sums[_slot_of_round[round(k) % RING]], round(k), x, before, value(k + 1)); }
  }

  /// Turns sums into changes from segment to segment: what takes effect within a segment counts for a part of it, and
  /// for all that come after. \param changes of each segment: added to
  void spread(const change_sums* sums, double* changes) const;

private:
  class range
  {
  public:
    uint32_t first;
    uint32_t end;
    double inverse_length;
  };
  static range make_range(uint32_t first, uint32_t end) { return {first, end, 1. / (end - first)}; }

  static constexpr uint32_t RING = 1 << 16;  ///< rounds whose slots are remembered; older ones are searched for
  std::vector<uint32_t> _slot_of_round;
  std::vector<uint32_t> _slots;  ///< of each segment
  std::vector<range> _rounds;    ///< of each slot
  uint32_t _free = 0;            ///< the slot of the next segment

  static uint32_t first_remembered(const segments& past) { return past.rounds() > RING ? past.rounds() - RING : 0; }
  static void add_change(change_sums& sum, uint32_t round, double x, double& before, double after)
  {
    const double change = x * (after - before);
    before = after;
    sum.changes += change;
    sum.weighted += change * round;
  }
  void label(const segments& past, range rounds, uint32_t slot);
};
}  // namespace opo_cmab
