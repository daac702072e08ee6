#include "kernel/bytes.h"
#include "kernel/weight_history.h"

#include <numeric>
#include <utility>

// The history as bytes, for a model file.
namespace opo_cmab
{
std::string weight_history::serialize() const
{
  std::string bytes;
  const auto starts = _past.budget() == 0 ? std::vector<uint32_t>() : _past.starts();
  append_bytes(bytes, _past.budget());
  append_bytes(bytes, _past.rounds());
  append_bytes(bytes, starts);
  std::vector<uint32_t> alone;  // weights in the pool, each saved as a cohort of one
  for (uint32_t number = 0; pooled() && number < weights(); ++number)
  {
    if (_places[number].alone != 0) { alone.push_back(number); }
  }
  append_bytes(bytes, static_cast<uint64_t>(_cohorts.size() - _free_cohorts.size() + alone.size()));
  for (const auto& line : _cohorts)
  {
    if (line.size == 0) { continue; }
    append_bytes(bytes, line.predictors);
    append_bytes(bytes, static_cast<uint64_t>(line.size));
    for (std::size_t i = 0; i < line.members.size(); ++i)
    {
      if (line.members[i] == NONE) { continue; }
      append_bytes(bytes, _weights[line.members[i]]);
      for (std::size_t row = 0; row < line.rows(); ++row) { append_bytes(bytes, line.at(row, i)); }
    }
  }
  for (const auto number : alone)
  {
    const auto* predictors = _pool.predictors(_places[number].cohort);
    const auto* values = _pool.values(_places[number].cohort, _places[number].column);
    const uint32_t size = _places[number].column;
    append_bytes(bytes, static_cast<uint64_t>(size - 1));
    for (uint32_t k = 1; k < size; ++k) { append_bytes(bytes, predictors[k]); }
    append_bytes(bytes, uint64_t{1});
    append_bytes(bytes, _weights[number]);
    for (uint32_t k = 0; k < size; ++k) { append_bytes(bytes, values[k]); }
  }
  return bytes;
}

bool weight_history::deserialize(const char* bytes, std::size_t size)
{
  const uint32_t budget = _past.budget();
  *this = weight_history(budget);
  byte_reader in(bytes, size);
  uint32_t saved_budget = 0;
  uint32_t rounds = 0;
  std::vector<uint32_t> starts;
  uint64_t count = 0;
  bool good = in.read(saved_budget) && saved_budget == budget && in.read(rounds) && rounds < UINT32_MAX - 1 &&
      in.read(starts) && _past.restore(rounds, std::move(starts)) && in.read(count) && count < NONE;
  for (uint64_t i = 0; good && i < count; ++i)
  {
    std::vector<uint32_t> predictors;
    uint64_t members = 0;
    good = in.read(predictors) && !predictors.empty() && predictors.back() <= rounds + 1 &&
        strictly_increasing(predictors) && in.read(members) && members > 0 && members < NONE - weights() &&
        in.left() / members >= sizeof(uint64_t) + (predictors.size() + 1) * sizeof(float) &&
        (!pooled() || predictors.size() < timeline_pool::MOST_ENTRIES);
    if (!good) { break; }
    std::vector<uint32_t> numbers(members);
    std::iota(numbers.begin(), numbers.end(), static_cast<uint32_t>(weights()));
    const auto cohort_number = static_cast<uint32_t>(_cohorts.size());
    _cohorts.emplace_back();
    auto& line = _cohorts.back();
    line.start(std::move(numbers), std::move(predictors));
    for (uint32_t column = 0; good && column < members; ++column)
    {
      uint64_t weight = 0;
      good = in.read(weight) && _index.find(weight) == NONE;
      if (!good) { break; }
      add(weight, {cohort_number, column, members == 1 ? 1U : 0U});
      for (std::size_t row = 0; good && row < line.rows(); ++row) { good = in.read(line.at(row, column)); }
    }
    if (good && members == 1 && pooled())
    {
      to_pool(_places.back(), line, 0);
      _cohorts.pop_back();
    }
  }
  good = good && in.left() == 0;
  if (good && budget != 0) { _slots.restore(_past); }
  if (!good) { *this = weight_history(budget); }
  return good;
}
}  // namespace opo_cmab
