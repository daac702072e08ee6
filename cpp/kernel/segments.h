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

/// The past rounds in segments of one or more rounds each: each round by itself, or with a budget of N never more than
/// N of them, however many rounds there are. Segments are short at both ends of the past and longer in between: what
/// is recent decides what looks best now, what is early decides which actions have been tried at all.
class segments
{
public:
  /// \param budget the largest number of segments; 0: no limit
  explicit segments(uint32_t budget = 0) : _budget(budget), _starts{0} {}

  /// One more round, in a segment of its own.
  void append();

  uint32_t budget() const { return _budget; }
  uint32_t rounds() const { return _rounds; }
  std::size_t size() const { return _budget == 0 ? _rounds : _starts.size() - 1; }

  /// The first round of each segment, counted from 0, and the number of rounds. With a budget only.
  const std::vector<uint32_t>& starts() const { return _starts; }

  /// \return false if these are no segments within the budget
  bool restore(uint32_t rounds, std::vector<uint32_t> starts);

private:
  uint32_t _budget;
  uint32_t _rounds = 0;
  std::vector<uint32_t> _starts;

  void merge_down_to(std::size_t size);
};
}  // namespace opo_cmab
