#pragma once

#include "kernel/weight_index.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// The timelines of weights that the same rounds have changed, as those of an example often are, in the columns of a
/// matrix. A round that changes most of them counts for all, with the old value where there is no new one.
class cohort
{
public:
  /// Rows that lie side by side in a column, as many as are summed at once; then come those of the next column. Less
  /// where there are few rows, as most cohorts have few.
  static constexpr std::size_t TILE = 8;

  std::vector<uint32_t> predictors;  ///< predictors[r]: the first with the values of row r + 1, increasing
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
  std::size_t tile() const { return std::size_t{1} << tile_bits(rows()); }
  std::size_t tiles() const { return (rows() + tile() - 1) / tile(); }
  float& at(std::size_t row, std::size_t column) { return values[index(row, column)]; }
  float at(std::size_t row, std::size_t column) const { return values[index(row, column)]; }

private:
  static std::size_t tile_bits(std::size_t rows) { return rows <= 2 ? 1 : rows <= 4 ? 2 : 3; }
  std::size_t index(std::size_t row, std::size_t column) const
  {
    const std::size_t bits = tile_bits(rows());
    return (((row >> bits) * members.size() + column) << bits) + (row & ((std::size_t{1} << bits) - 1));
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

    entry() = default;
    entry(uint32_t its_group, uint32_t its_member, float its_value)
        : group(its_group)
        , member(its_member)
        , value(its_value)
    {
    }
  };

  class group
  {
  public:
    uint32_t cohort;
    std::size_t size;
    entry* entries;  ///< in the order that they came in
  };

  void add(uint32_t cohort, uint32_t member, float value)
  {
    if (_groups.empty() || _groups[_last].cohort != cohort) { _last = group_of(cohort); }
    ++_groups[_last].size;
    _entries.emplace_back(_last, member, value);
  }
  /// Cohorts in the order that their first entries came in.
  const std::vector<group>& sort();
  void clear();

private:
  std::vector<entry> _entries;
  std::vector<entry> _sorted;
  std::vector<group> _groups;
  std::vector<uint32_t> _group_of;  ///< each cohort
  uint32_t _last = 0;               ///< the group of the last entry

  uint32_t group_of(uint32_t cohort);
};
}  // namespace opo_cmab
