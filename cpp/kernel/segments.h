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

/// The past rounds in segments. A segment is one or more rounds, and takes one step of a replay: with a budget of N
/// there are never more than N segments, so never more than N steps. A budget of 0 is no limit: each round is a
/// segment. Recent segments are short, older ones longer: their lengths grow as the power 3/4 of their ages.
class segments
{
public:
  /// \param budget the largest number of segments; 0: no limit
  explicit segments(uint32_t budget = 0) : _budget(budget), _starts{0} {}

  /// One more round, in a segment of its own.
  /// \return the segment that the one after it was merged into to stay within the budget; NONE_MERGED if none was
  std::size_t append();
  static constexpr std::size_t NONE_MERGED = SIZE_MAX;

  uint32_t budget() const { return _budget; }
  uint32_t rounds() const { return _rounds; }
  std::size_t size() const { return _budget == 0 ? _rounds : _starts.size() - 1; }

  /// The first round of each segment, counted from 0, and the number of rounds. With a budget only.
  const std::vector<uint32_t>& starts() const { return _starts; }
  uint32_t first(std::size_t segment) const { return _budget == 0 ? static_cast<uint32_t>(segment) : _starts[segment]; }
  /// The number of its rounds.
  uint32_t length(std::size_t segment) const { return _budget == 0 ? 1 : _starts[segment + 1] - _starts[segment]; }

  /// \return false if these are no segments within the budget
  bool restore(uint32_t rounds, std::vector<uint32_t> starts);

private:
  uint32_t _budget;
  uint32_t _rounds = 0;
  std::vector<uint32_t> _starts;

  std::size_t shortest_for_its_age() const;
};
}  // namespace opo_cmab
