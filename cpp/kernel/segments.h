#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace opo_cmab
{
inline bool strictly_increasing(const std::vector<uint32_t>& values)
{
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<uint32_t>()) == values.end();
}

/// The past rounds, divided into segments. A segment is one or more rounds and one step of a replay. With a budget of N
/// there are at most N segments, and so at most N steps. Without one (0) each round is a segment. Older segments are
/// longer: the length grows as the power 3/4 of the age.
class segments
{
public:
  /// \param budget the largest number of segments; 0: no limit
  explicit segments(uint32_t budget = 0) : _budget(budget), _starts{0} {}

  /// Adds a round, as a new segment. Over budget, two neighbouring segments merge.
  /// \return the first of the two, or NONE_MERGED
  std::size_t append();
  static constexpr std::size_t NONE_MERGED = SIZE_MAX;

  uint32_t budget() const { return _budget; }
  uint32_t rounds() const { return _rounds; }
  std::size_t size() const { return _budget == 0 ? _rounds : _starts.size() - 1; }

  /// The first round of each segment, counted from 0, and the number of rounds. With a budget only.
  const std::vector<uint32_t>& starts() const { return _starts; }
  uint32_t first(std::size_t segment) const { return _budget == 0 ? static_cast<uint32_t>(segment) : _starts[segment]; }
  /// The number of rounds in a segment.
  uint32_t length(std::size_t segment) const { return _budget == 0 ? 1 : _starts[segment + 1] - _starts[segment]; }

  /// \return false if these are not segments within the budget
  bool restore(uint32_t rounds, std::vector<uint32_t> starts);

private:
  uint32_t _budget;
  uint32_t _rounds = 0;
  std::vector<uint32_t> _starts;
  std::vector<double> _scores;  ///< for shortest_for_its_age

  std::size_t shortest_for_its_age();
};
}  // namespace opo_cmab
