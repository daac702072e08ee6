#include "kernel/segments.h"

#include "kernel/vectorized.h"

#include <cmath>
#include <utility>

namespace
{
/// The same number, by operations that compilers can vectorize.
inline double to_double(uint32_t x) { return static_cast<int32_t>(x - 0x80000000U) + 2147483648.; }

/// The lengths of pairs of neighbouring segments for their age.
OPO_CMAB_VECTORIZED
void score_pairs(const uint32_t* __restrict starts, std::size_t pairs, uint32_t rounds, double* __restrict scores)
{
  for (std::size_t i = 0; i < pairs; ++i)
  {
    const double age = 1. + to_double(rounds - starts[i + 2]);
    scores[i] = to_double(starts[i + 2] - starts[i]) / std::sqrt(age * std::sqrt(age));
  }
}
}  // namespace

namespace opo_cmab
{
constexpr std::size_t segments::NONE_MERGED;

std::size_t segments::append()
{
  ++_rounds;
  if (_budget == 0) { return NONE_MERGED; }
  _starts.push_back(_rounds);
  if (size() <= _budget) { return NONE_MERGED; }
  const std::size_t merged = shortest_for_its_age();
  _starts.erase(_starts.begin() + static_cast<std::ptrdiff_t>(merged) + 1);
  return merged;
}

/// The pair of neighbours to merge next, the shortest for its age: returns the first of the two.
std::size_t segments::shortest_for_its_age()
{
  _scores.resize(size() - 1);
  score_pairs(_starts.data(), _scores.size(), _rounds, _scores.data());
  return static_cast<std::size_t>(std::min_element(_scores.begin(), _scores.end()) - _scores.begin());
}

bool segments::restore(uint32_t rounds, std::vector<uint32_t> starts)
{
  const bool good = _budget == 0 ? starts.empty()
                                 : !starts.empty() && starts.front() == 0 && starts.back() == rounds &&
          starts.size() - 1 <= _budget && strictly_increasing(starts);
  if (!good) { return false; }
  _rounds = rounds;
  if (_budget != 0) { _starts = std::move(starts); }
  return true;
}
}  // namespace opo_cmab
