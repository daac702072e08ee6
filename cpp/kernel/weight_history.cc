#include "kernel/weight_history.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace
{
template <typename T>
void append(std::string& bytes, const T& value)
{
  static_assert(std::is_trivially_copyable<T>::value, "only plain data has bytes to write");
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Reads plain data from bytes that may be cut short.
class reader
{
public:
  reader(const char* bytes, std::size_t size) : _next(bytes), _left(size) {}

  template <typename T>
  bool read(T* values, std::size_t count = 1)
  {
    if (_left / sizeof(T) < count) { return false; }
    if (count > 0) { std::memcpy(static_cast<void*>(values), _next, count * sizeof(T)); }
    _next += count * sizeof(T);
    _left -= count * sizeof(T);
    return true;
  }

  std::size_t left() const { return _left; }

private:
  const char* _next;
  std::size_t _left;
};
}  // namespace

namespace opo_cmab
{
void weight_history::record(uint64_t weight, uint32_t round, float before, float after)
{
  if (before == after) { return; }
  const auto found = _timelines.emplace(weight, timeline{before, {}});
  auto& entries = found.first->second.entries;
  const uint32_t predictor = round + 1;
  // Several features of one example may sit on the weight: its change counts once.
  if (!entries.empty() && entries.back().predictor == predictor) { entries.back().value = after; }
  else
  {
    entries.push_back({predictor, after});
    ++_entries;
  }
}

void weight_history::add_past(
    uint64_t weight, float x, float now, double* changes, std::size_t rounds, std::size_t n) const
{
  const auto found = _timelines.find(weight);
  if (found == _timelines.end())
  {
    changes[0] += static_cast<double>(x) * now;
    return;
  }
  double value = found->second.initial;
  changes[0] += x * value;
  for (const auto& entry : found->second.entries)
  {
    if (entry.predictor >= rounds) { break; }  // set by the latest round, for predictors to come
    changes[entry.predictor * n] += x * (entry.value - value);
    value = entry.value;
  }
}

std::size_t weight_history::bytes() const
{
  constexpr std::size_t node = sizeof(std::pair<const uint64_t, timeline>) + 2 * sizeof(void*);
  std::size_t total = _timelines.bucket_count() * sizeof(void*) + _timelines.size() * node;
  for (const auto& item : _timelines) { total += item.second.entries.capacity() * sizeof(entry); }
  return total;
}

std::string weight_history::serialize() const
{
  std::vector<uint64_t> weights;
  weights.reserve(_timelines.size());
  for (const auto& item : _timelines) { weights.push_back(item.first); }
  std::sort(weights.begin(), weights.end());

  std::string bytes;
  append(bytes, static_cast<uint64_t>(weights.size()));
  for (const auto weight : weights)
  {
    const auto& line = _timelines.at(weight);
    append(bytes, weight);
    append(bytes, line.initial);
    append(bytes, static_cast<uint64_t>(line.entries.size()));
    bytes.append(reinterpret_cast<const char*>(line.entries.data()), line.entries.size() * sizeof(entry));
  }
  return bytes;
}

bool weight_history::deserialize(const char* bytes, std::size_t size)
{
  _timelines.clear();
  _entries = 0;
  reader in(bytes, size);
  uint64_t weights = 0;
  bool good = in.read(&weights);
  for (uint64_t i = 0; good && i < weights; ++i)
  {
    uint64_t weight = 0;
    timeline line{0.f, {}};
    uint64_t count = 0;
    good = in.read(&weight) && in.read(&line.initial) && in.read(&count) && count <= in.left() / sizeof(entry);
    if (!good) { break; }
    line.entries.resize(count);
    good = in.read(line.entries.data(), count) &&
        std::is_sorted(line.entries.begin(), line.entries.end(),
            [](const entry& a, const entry& b) { return a.predictor < b.predictor; });
    _entries += count;
    _timelines.emplace(weight, std::move(line));
  }
  good = good && in.left() == 0;
  if (!good)
  {
    _timelines.clear();
    _entries = 0;
  }
  return good;
}
}  // namespace opo_cmab
