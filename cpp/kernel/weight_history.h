#pragma once

#include "kernel/cohort.h"
#include "kernel/segment_slots.h"
#include "kernel/segments.h"
#include "kernel/timeline_pool.h"
#include "kernel/weight_index.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// All past predictors of a linear model without a copy of any. A round changes the weights of one example only; so of
// every weight its timeline is kept, the rounds that changed it and the values it took. With a budget, what is kept of
// a long segment of the past is the average of its predictors. Pure math, nothing of VW.
namespace opo_cmab
{
class weight_history
{
public:
  class change
  {
  public:
    uint64_t weight;
    float before;
    float after;

    change(uint64_t its_weight, float was, float is) : weight(its_weight), before(was), after(is) {}
  };

  /// Where the timeline of a weight is.
  class place
  {
  public:
    uint32_t cohort;       ///< or, if it is alone and they are pooled, where in the pool
    uint32_t column : 31;  ///< or how many entries it has there
    uint32_t alone : 1;    ///< 1 if its timeline is stored by itself
  };

  /// \param budget the largest number of segments that the past is kept in; 0: every round by itself
  explicit weight_history(uint32_t budget = 0) : _past(budget) {}

  /// The round at hand has changed weights. Several features may sit on one, which then is there several times.
  void record(const std::vector<change>& changes);
  void end_round();

  /// The rounds that have ended, in segments.
  const segments& past() const { return _past; }

  /// \return NONE if no round has changed the weight: it always had the value that it has now
  uint32_t number_of(uint64_t weight) const
  {
    if (_in_order && _next < _weights.size() && _weights[_next] == weight) { return _next++; }
    const uint32_t number = _index.find(weight);
    _in_order = number == _next;
    if (number != NONE) { _next = number + 1; }
    return number;
  }
  /// For a weight that is looked up soon.
  void prefetch(uint64_t weight) const
  {
    if (!_in_order) { _index.prefetch(weight); }
  }
  const std::vector<place>& places() const { return _places; }  ///< by their numbers
  const std::vector<cohort>& cohorts() const { return _cohorts; }
  const segment_slots& slots() const { return _slots; }  ///< with a budget
  /// Whether the timelines of weights that are alone are in the pool. If not they are cohorts of one.
  bool pooled() const { return _past.budget() != 0 && _past.budget() <= MOST_POOLED; }
  const timeline_pool& pool() const { return _pool; }

  std::size_t weights() const { return _weights.size(); }
  std::size_t entries() const;
  std::size_t bytes() const;

  /// The same history gives the same bytes.
  std::string serialize() const;
  /// \return false, and an empty history, if the bytes are not what serialize writes with this budget
  bool deserialize(const char* bytes, std::size_t size);

private:
  static constexpr uint32_t MOST_POOLED = 4000;  ///< so that no timeline has too many entries for the pool
  static constexpr std::size_t SMALL = 8;        ///< rests of cohorts up to this are better off in the pool
  segments _past;
  segment_slots _slots;
  weight_index _index;
  weight_list _weights;  ///< in the order that they were first changed in: by their numbers
  std::vector<place> _places;
  std::vector<uint16_t> _seen;  ///< by which call of record last: its number, which wraps; 0: none
  std::vector<cohort> _cohorts;
  std::vector<uint32_t> _free_cohorts;  ///< which have no members
  timeline_pool _pool;
  mutable uint32_t _next = 0;     ///< the number after the one that was looked up last
  mutable bool _in_order = true;  ///< whether weights are looked up in the order of their numbers

  // For record:
  uint16_t _call = 0;
  cohort_entries _changed;  ///< the weight's number, its value
  std::vector<change> _new;
  std::vector<timeline_entry> _entries;
  std::vector<timeline_entry> _coarse;

  uint32_t add(uint64_t weight, place where);
  uint32_t next_cohort() const;
  cohort& add_cohort();
  void add_new(const std::vector<change>& changes, std::vector<uint32_t> numbers);
  uint32_t split(uint32_t from, const cohort_entries::group& leaving);
  void compact(uint32_t number);
  bool is_small(std::size_t members) const { return members == 1 || (pooled() && members <= SMALL); }
  bool is_long(std::size_t entries) const
  {
    return _past.budget() != 0 && 2 * entries > 3 * std::size_t{_past.budget()};
  }
  void coarsen(cohort& line);

  const std::vector<timeline_entry>& entries_of(const cohort& line, uint32_t column);
  void to_pool(place& its, const cohort& line, uint32_t column);
  void append_alone(place& its, timeline_entry entry);
};
}  // namespace opo_cmab
