#pragma once

#include "kernel/segments.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

  /// Adds a timeline: x times the change from values[k] to values[k + 1] takes effect with rounds[k], in increasing
  /// order; those of rounds that are not past are left out.
  /// \param changes of each segment, at its start
  /// \param sums of each slot, for all other changes
  /// \return the first segment that may have such
  template <typename Value>
  std::size_t add(double* __restrict changes, change_sums* sums, const segments& past, double x, const uint32_t* rounds,
      const Value* __restrict values, std::size_t count) const
  {
    const uint32_t* starts = past.starts().data();
    const std::size_t most = std::min(count, past.size());
    std::size_t k = 0;
    // A weight that changes often does so in every segment, and the oldest segments hardly change. So most of what is
    // old takes effect just where they start.
    for (; k + TOGETHER <= most && std::memcmp(rounds + k, starts + k, TOGETHER * sizeof(uint32_t)) == 0; k += TOGETHER)
    {
      for (std::size_t i = k; i < k + TOGETHER; ++i)
      {
        changes[i] += x * (static_cast<double>(values[i + 1]) - static_cast<double>(values[i]));
      }
    }
    const std::size_t first = k > 0 ? k - 1 : 0;  // rounds[k] is after the start of segment k - 1
    const uint32_t oldest = first_remembered(past);
    double before = values[k];
    std::size_t segment = first;
    for (; k < count && rounds[k] < oldest; ++k)
    {
      while (starts[segment + 1] <= rounds[k]) { ++segment; }
      add_change(sums[_slots[segment]], rounds[k], x, before, values[k + 1]);
    }
    while (count > k && rounds[count - 1] >= past.rounds()) { --count; }
    for (; k < count; ++k) { add_change(sums[_slot_of_round[rounds[k] % RING]], rounds[k], x, before, values[k + 1]); }
    return first;
  }

  /// Turns sums into changes from segment to segment: what takes effect within a segment counts for a part of it, and
  /// for all that come after.
  /// \param sums of each slot: cleared
  /// \param first the first segment that may have sums
  /// \param changes of each segment: added to
  void spread(change_sums* sums, std::size_t first, double* changes) const;

private:
  class range
  {
  public:
    uint32_t first;
    uint32_t end;
    double inverse_length;
  };
  static range make_range(uint32_t first, uint32_t end) { return {first, end, 1. / (end - first)}; }

  static constexpr std::size_t TOGETHER = 4;
  static constexpr uint32_t RING = 1 << 16;  ///< rounds whose slots are remembered; older ones are searched for
  std::vector<uint16_t> _slot_of_round;      ///< small: they are looked up all over
  std::vector<uint32_t> _slots;              ///< of each segment
  std::vector<range> _rounds;                ///< of each slot
  uint32_t _free = 0;                        ///< the slot of the next segment

  static uint32_t first_remembered(const segments& past)
  {
    if (past.budget() >= UINT16_MAX) { return past.rounds(); }  // none: there are too many slots
    return past.rounds() > RING ? past.rounds() - RING : 0;
  }
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
