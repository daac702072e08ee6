#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// All past predictors of a linear model without a copy of any. A round changes the weights of one example only; so of
// every weight its timeline is kept, the rounds that changed it and the values it took. With a budget, what is kept of
// a long segment of the past is the average of its predictors. Pure math, nothing of VW.
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

/// The timelines of weights that the same rounds have changed, as those of an example often are, in the columns of a
/// matrix. A round that changes most of them counts for all, with the old value where there is no new one.
class cohort
{
public:
  /// Rows that lie side by side in a column, as many as are summed at once; then come those of the next column.
  static constexpr std::size_t TILE = 8;

  std::vector<uint32_t> predictors;  ///< the first that has the values of each row but row 0; from 0, increasing
  std::vector<uint32_t> members;     ///< the number of the weight in each column; NONE: it has left
  std::size_t size = 0;              ///< how many members are there
  std::vector<float> values;

  /// Rows that are still to be set.
  void start(std::vector<uint32_t> its_members, std::vector<uint32_t> its_predictors);
  /// Some columns of another, which is not this.
  void start(const cohort& other, const std::vector<uint32_t>& columns);
  /// One more row, like the last.
  void append(uint32_t predictor);

  std::size_t rows() const { return predictors.size() + 1; }
  std::size_t tiles() const { return (rows() + TILE - 1) / TILE; }
  float& at(std::size_t row, std::size_t column) { return values[index(row, column)]; }
  float at(std::size_t row, std::size_t column) const { return values[index(row, column)]; }

private:
  std::size_t index(std::size_t row, std::size_t column) const
  {
    return (row / TILE * members.size() + column) * TILE + row % TILE;
  }
  void make_room();
};

/// Values for members of cohorts, brought into the order of the cohorts.
class cohort_entries
{
public:
  class entry
  {
  public:
    uint32_t group;
    uint32_t member;  ///< its column, or the number of its weight
    float value;
  };

  class group
  {
  public:
    uint32_t cohort;
    std::size_t size;
    entry* entries;  ///< in the order that they came in
  };

  void add(uint32_t cohort, uint32_t member, float value);
  /// Cohorts in the order that their first entries came in.
  const std::vector<group>& sort();
  void clear();

private:
  std::vector<entry> _entries;
  std::vector<entry> _sorted;
  std::vector<group> _groups;
  std::vector<uint32_t> _group_of;  ///< each cohort
};

class weight_history
{
public:
  class change
  {
  public:
    uint64_t weight;
    float before;
    float after;
  };

  /// \param budget the largest number of segments that the past is kept in; 0: every round by itself
  explicit weight_history(uint32_t budget = 0) : _past(budget) {}

  /// The round at hand has changed weights. Several features may sit on one, which then is there several times.
  void record(const std::vector<change>& changes);
  void end_round() { _past.append(); }

  /// The rounds that have ended, in segments.
  const segments& past() const { return _past; }

  /// Turns an example, feature by feature, into the predictions f_1 .. f_n that the past predictors make for it. f_k is
  /// the predictor before round k, or the average of those before the rounds of segment k: what a round changes counts
  /// from the next one on.
  class past_predictions
  {
  public:
    /// \param changes from predictor to predictor, f_1, f_2 - f_1, f_3 - f_2, ..: all zero before
    void start(const weight_history& history, double* changes);
    /// \return false, with nothing done, if no round has changed the weight: it always had the value that it has now
    bool add(uint64_t weight, float x);
    void add_unchanged(float weight, float x) { _changes[0] += static_cast<double>(x) * weight; }
    void finish();

  private:
    const weight_history* _history = nullptr;
    double* _changes = nullptr;
    cohort_entries _features;   ///< the weight's column, the feature's value
    std::vector<double> _sums;  ///< over the features in a cohort, of each row

    void spread(const std::vector<uint32_t>& predictors) const;
  };

  std::size_t weights() const { return _weights.size(); }
  std::size_t entries() const;
  std::size_t bytes() const;

  /// The same history gives the same bytes.
  std::string serialize() const;
  /// \return false, and an empty history, if the bytes are not what serialize writes with this budget
  bool deserialize(const char* bytes, std::size_t size);

private:
  /// Where the timeline of a weight is.
  class place
  {
  public:
    uint32_t cohort;
    uint32_t column;
    uint32_t seen;  ///< by which call of record last
  };

  segments _past;
  weight_index _index;
  std::vector<uint64_t> _weights;  ///< in the order that they were first changed in: by their numbers
  std::vector<place> _places;
  std::vector<cohort> _cohorts;
  mutable uint32_t _next = 0;  ///< the number that is probably looked up next

  // For record:
  uint32_t _calls = 0;
  cohort_entries _changed;  ///< the weight's number, its value
  std::vector<change> _new;
  std::vector<double> _sums;

  uint32_t find(uint64_t weight) const;
  uint32_t add(uint64_t weight, place where);
  cohort& split(uint32_t from, const cohort_entries::group& leaving);
  void compact(cohort& line);
  void coarsen(cohort& line);
};
}  // namespace opo_cmab
