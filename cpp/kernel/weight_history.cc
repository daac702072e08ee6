#include "kernel/weight_history.h"

#include "kernel/vectorized.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <type_traits>

namespace
{
/// sums[k] += x (values[k + 1] - values[k])
OPO_CMAB_VECTORIZED
void add_differences(double* __restrict sums, const float* __restrict values, double x, std::size_t n)
{
  for (std::size_t k = 0; k < n; ++k)
  {
    sums[k] += x * (static_cast<double>(values[k + 1]) - static_cast<double>(values[k]));
  }
}

uint64_t mix(uint64_t bits)  // the finalizer of MurmurHash3
{
  bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdULL;
  bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return bits ^ (bits >> 33);
}

template <typename T>
void append(std::string& bytes, const T& value)
{
  static_assert(std::is_trivially_copyable<T>::value, "only plain data has bytes to write");
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Their number, then they themselves.
void append_all(std::string& bytes, const std::vector<uint32_t>& values)
{
  append(bytes, static_cast<uint64_t>(values.size()));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint32_t));
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

  /// What append_all wrote.
  bool read_all(std::vector<uint32_t>& values)
  {
    uint64_t count = 0;
    if (!read(&count) || _left / sizeof(uint32_t) < count) { return false; }
    values.resize(count);
    return read(values.data(), count);
  }

  std::size_t left() const { return _left; }

private:
  const char* _next;
  std::size_t _left;
};
}  // namespace

namespace opo_cmab
{
uint32_t weight_index::find(uint64_t weight) const { return _slots.empty() ? NONE : _slots[probe(weight)].timeline; }

void weight_index::insert(uint64_t weight, uint32_t timeline)
{
  if (2 * _used >= _slots.size()) { grow(); }
  auto& slot = _slots[probe(weight)];
  slot.weight = weight;
  slot.timeline = timeline;
  ++_used;
}

void weight_index::clear()
{
  _slots.clear();
  _used = 0;
}

/// Where the weight is, or would be.
std::size_t weight_index::probe(uint64_t weight) const
{
  const std::size_t mask = _slots.size() - 1;
  std::size_t i = mix(weight) & mask;
  while (_slots[i].timeline != NONE && _slots[i].weight != weight) { i = (i + 1) & mask; }
  return i;
}

void weight_index::grow()
{
  std::vector<slot> old(std::max<std::size_t>(64, 2 * _slots.size()));
  old.swap(_slots);
  for (const auto& slot : old)
  {
    if (slot.timeline != NONE) { _slots[probe(slot.weight)] = slot; }
  }
}

void weight_history::timeline::append(uint32_t predictor, float value)
{
  latest = predictor;
  predictors.push_back(predictor);
  values.push_back(value);
  rounds_hash = mix(rounds_hash + predictor + 1);
}

void weight_history::timeline::clear()
{
  latest = 0;
  rounds_hash = 0;
  predictors.clear();
  values.clear();
}

/// The number of a weight's timeline.
uint32_t weight_history::find(uint64_t weight) const
{
  const bool guessed = _next < _weights.size() && _weights[_next] == weight;
  const uint32_t i = guessed ? _next : _index.find(weight);
  if (i != weight_index::NONE) { _next = i + 1; }
#if defined(__GNUC__)
  // Their values lie far apart: fetch those that are probably next but a few.
  if (guessed && i + 6 < _timelines.size())
  {
    const auto& ahead = _timelines[i + 6].values;
    for (std::size_t k = 0; k < ahead.size() && k < 128; k += 16) { __builtin_prefetch(ahead.data() + k); }
  }
#endif
  return i;
}

weight_history::timeline& weight_history::add(uint64_t weight, float initial)
{
  _index.insert(weight, static_cast<uint32_t>(_timelines.size()));
  _weights.push_back(weight);
  _timelines.emplace_back();
  auto& line = _timelines.back();
  line.initial = initial;
  line.values.push_back(initial);
  return line;
}

void weight_history::record(uint64_t weight, float before, float after)
{
  if (before == after) { return; }
  uint32_t i = find(weight);
  if (i == weight_index::NONE)
  {
    i = static_cast<uint32_t>(_timelines.size());
    add(weight, before);
  }
  auto& line = _timelines[i];
  const uint32_t predictor = _past.rounds() + 1;
  // Several features of one example may sit on the weight: its change counts once.
  if (line.latest == predictor)  // a predictor is at least 1
  {
    line.values.back() = after;
    return;
  }
  if (_past.budget() != 0 && line.predictors.size() > _past.budget()) { coarsen(line); }
  line.append(predictor, after);
  ++_entries;
  if (_previous < _timelines.size() && _timelines[_previous].latest == predictor)
  {
    align(_timelines[_previous], line);
  }
  _previous = i;
}

/// Two timelines of which each lacks a few of the other's rounds, as when a feature is 0 now and then, get them, with
/// no change of value: what the same rounds have changed is summed much faster (past_predictions).
void weight_history::align(timeline& a, timeline& b)
{
  if (a.rounds_hash == b.rounds_hash) { return; }
  const std::size_t shorter = std::min(a.predictors.size(), b.predictors.size());
  const std::size_t most = shorter + shorter / 8;
  if (std::max(a.predictors.size(), b.predictors.size()) > most) { return; }
  _both.clear();
  std::set_union(
      a.predictors.begin(), a.predictors.end(), b.predictors.begin(), b.predictors.end(), std::back_inserter(_both));
  if (_both.size() > most) { return; }
  fill_in(a, _both);
  fill_in(b, _both);
}

/// \param predictors those of the timeline and more
void weight_history::fill_in(timeline& line, const std::vector<uint32_t>& predictors)
{
  _work.clear();
  _work.values.push_back(line.values[0]);
  std::size_t k = 0;
  for (const auto predictor : predictors)
  {
    if (k < line.predictors.size() && line.predictors[k] == predictor) { ++k; }
    _work.append(predictor, line.values[k]);
  }
  replace(line);
}

/// Makes _work the timeline.
void weight_history::replace(timeline& line)
{
  _entries = _entries - line.predictors.size() + _work.predictors.size();
  line.rounds_hash = _work.rounds_hash;
  line.latest = _work.latest;
  line.predictors.assign(_work.predictors.begin(), _work.predictors.end());
  line.values.assign(_work.values.begin(), _work.values.end());
}

/// Replaces what a timeline says of each segment by the average over the segment: all that is ever asked for.
void weight_history::coarsen(timeline& line)
{
  const auto& starts = _past.starts();
  const auto& predictors = line.predictors;
  const auto& values = line.values;
  const std::size_t n = predictors.size();
  _work.clear();
  _work.values.push_back(values[0]);
  std::size_t segment = 0;
  std::size_t k = 0;
  while (k < n && predictors[k] < _past.rounds())
  {
    while (starts[segment + 1] <= predictors[k]) { ++segment; }
    const uint32_t start = starts[segment];
    const uint32_t end = starts[segment + 1];
    const bool changed_within = predictors[k] > start || (k + 1 < n && predictors[k + 1] < end);
    double sum = static_cast<double>(values[k]) * (predictors[k] - start);
    for (; k < n && predictors[k] < end; ++k)
    {
      const uint32_t until = k + 1 < n ? std::min(predictors[k + 1], end) : end;
      sum += static_cast<double>(values[k + 1]) * (until - predictors[k]);
    }
    _work.append(start, static_cast<float>(sum / (end - start)));
    // The next segment starts from the last value, not from the average.
    const bool next_changes =
        k < n && (end == _past.rounds() ? predictors[k] == end : predictors[k] < starts[segment + 2]);
    if (changed_within && !next_changes) { _work.append(end, values[k]); }
  }
  for (; k < n; ++k) { _work.append(predictors[k], values[k + 1]); }
  replace(line);
}

void weight_history::past_predictions::start(const weight_history& history, double* changes)
{
  _history = &history;
  _changes = changes;
  _group = nullptr;
}

bool weight_history::past_predictions::add(uint64_t weight, float x)
{
  const uint32_t i = _history->find(weight);
  if (i == weight_index::NONE) { return false; }
  const auto& line = _history->_timelines[i];
  _changes[0] += static_cast<double>(x) * line.initial;
  // A hash alone could be forged to be equal for timelines of different length.
  if (_group == nullptr || _group->rounds_hash != line.rounds_hash ||
      _group->predictors.size() != line.predictors.size())
  {
    finish();
    _group = &line;
    _x = x;
    _members = 1;
    return true;
  }
  if (_members == 1)
  {
    _sums.assign(line.predictors.size(), 0.);
    add_differences(_sums.data(), _group->values.data(), _x, _sums.size());
  }
  add_differences(_sums.data(), line.values.data(), x, _sums.size());
  ++_members;
  return true;
}

void weight_history::past_predictions::finish()
{
  if (_group == nullptr) { return; }
  if (_members > 1)
  {
    const double* sums = _sums.data();
    spread([sums](std::size_t k) { return sums[k]; });
  }
  else
  {
    const float* values = _group->values.data();
    const double x = _x;
    spread([values, x](std::size_t k)
        { return x * (static_cast<double>(values[k + 1]) - static_cast<double>(values[k])); });
  }
  _group = nullptr;
}

/// Spreads the changes of the group over the rounds or segments.
template <typename ChangeAt>
void weight_history::past_predictions::spread(ChangeAt change_at) const
{
  const auto& past = _history->_past;
  const uint32_t* predictors = _group->predictors.data();
  std::size_t n = _group->predictors.size();
  while (n > 0 && predictors[n - 1] >= past.rounds()) { --n; }  // still to come
  double* changes = _changes;
  if (past.budget() == 0)
  {
    for (std::size_t k = 0; k < n; ++k) { changes[predictors[k]] += change_at(k); }
    return;
  }
  const uint32_t* starts = past.starts().data();
  std::size_t segment = 0;
  for (std::size_t k = 0; k < n; ++k)
  {
    while (starts[segment + 1] <= predictors[k]) { ++segment; }
    const double change = change_at(k);
    if (predictors[k] == starts[segment])
    {
      changes[segment] += change;
      continue;
    }
    // It counts for a part of its segment, and all of the next.
    const uint32_t end = starts[segment + 1];
    const double now = change * (end - predictors[k]) / (end - starts[segment]);
    changes[segment] += now;
    if (end < past.rounds()) { changes[segment + 1] += change - now; }
  }
}

std::size_t weight_history::bytes() const
{
  std::size_t total =
      _index.bytes() + _weights.capacity() * sizeof(uint64_t) + _timelines.capacity() * sizeof(timeline);
  for (const auto& line : _timelines)
  {
    total += line.predictors.capacity() * sizeof(uint32_t) + line.values.capacity() * sizeof(float);
  }
  return total;
}

std::string weight_history::serialize() const
{
  std::vector<std::size_t> order(_weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return _weights[a] < _weights[b]; });

  std::string bytes;
  const auto starts = _past.budget() == 0 ? std::vector<uint32_t>() : _past.starts();
  ::append(bytes, _past.budget());
  ::append(bytes, _past.rounds());
  append_all(bytes, starts);
  ::append(bytes, static_cast<uint64_t>(order.size()));
  for (const auto i : order)
  {
    const auto& line = _timelines[i];
    ::append(bytes, _weights[i]);
    append_all(bytes, line.predictors);
    bytes.append(reinterpret_cast<const char*>(line.values.data()), line.values.size() * sizeof(float));
  }
  return bytes;
}

bool weight_history::deserialize(const char* bytes, std::size_t size)
{
  const uint32_t budget = _past.budget();
  *this = weight_history(budget);
  reader in(bytes, size);
  uint32_t saved_budget = 0;
  uint32_t rounds = 0;
  std::vector<uint32_t> starts;
  uint64_t count = 0;
  bool good = in.read(&saved_budget) && saved_budget == budget && in.read(&rounds) && in.read_all(starts) &&
      _past.restore(rounds, std::move(starts)) && in.read(&count) && count < weight_index::NONE;
  for (uint64_t i = 0; good && i < count; ++i)
  {
    uint64_t weight = 0;
    std::vector<uint32_t> predictors;
    good = in.read(&weight) && _index.find(weight) == weight_index::NONE && in.read_all(predictors) &&
        !predictors.empty() && predictors.back() <= rounds && strictly_increasing(predictors);
    if (!good) { break; }
    std::vector<float> values(predictors.size() + 1);
    good = in.read(values.data(), values.size());
    if (!good) { break; }
    auto& line = add(weight, values[0]);
    for (std::size_t k = 0; k < predictors.size(); ++k) { line.append(predictors[k], values[k + 1]); }
    _entries += predictors.size();
  }
  good = good && in.left() == 0;
  if (!good) { *this = weight_history(budget); }
  return good;
}
}  // namespace opo_cmab
