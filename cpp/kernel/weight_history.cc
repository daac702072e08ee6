#include "kernel/weight_history.h"

#include "kernel/vectorized.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

namespace
{
using opo_cmab::cohort;
using opo_cmab::cohort_entries;

/// For each row of a cohort, the sum over features, column and value x: x times what the row has in the column.
OPO_CMAB_VECTORIZED
void sum_features(const float* __restrict values, std::size_t columns, std::size_t tiles,
    const cohort_entries::entry* __restrict features, std::size_t n, double* __restrict sums)
{
  for (std::size_t t = 0; t < tiles; ++t)
  {
    double total[cohort::TILE] = {};
    for (std::size_t i = 0; i < n; ++i)
    {
      const double x = features[i].value;
      const float* column = values + features[i].member * cohort::TILE;
      for (std::size_t r = 0; r < cohort::TILE; ++r) { total[r] += x * static_cast<double>(column[r]); }
    }
    for (std::size_t r = 0; r < cohort::TILE; ++r) { sums[r] = total[r]; }
    values += columns * cohort::TILE;
    sums += cohort::TILE;
  }
}

/// Fetches the first rows of a cohort, some hundred if it has one column.
void prefetch(const cohort& line)
{
  constexpr std::size_t A_LINE = 64 / sizeof(float);
  constexpr std::size_t MOST = 8 * A_LINE;
  for (std::size_t i = 0; i < MOST && i < line.values.size(); i += A_LINE) { __builtin_prefetch(&line.values[i]); }
  for (std::size_t i = 0; i < MOST && i < line.predictors.size(); i += A_LINE)
  {
    __builtin_prefetch(&line.predictors[i]);
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
uint32_t weight_index::find(uint64_t weight) const { return _slots.empty() ? NONE : _slots[probe(weight)].number; }

void weight_index::insert(uint64_t weight, uint32_t number)
{
  if (2 * _used >= _slots.size()) { grow(); }
  auto& slot = _slots[probe(weight)];
  slot.weight = weight;
  slot.number = number;
  ++_used;
}

/// Where the weight is, or would be.
std::size_t weight_index::probe(uint64_t weight) const
{
  const std::size_t mask = _slots.size() - 1;
  std::size_t i = mix(weight) & mask;
  while (_slots[i].number != NONE && _slots[i].weight != weight) { i = (i + 1) & mask; }
  return i;
}

void weight_index::grow()
{
  std::vector<slot> old(std::max<std::size_t>(64, 2 * _slots.size()));
  old.swap(_slots);
  for (const auto& slot : old)
  {
    if (slot.number != NONE) { _slots[probe(slot.weight)] = slot; }
  }
}

void cohort::make_room() { values.resize(tiles() * members.size() * TILE); }

void cohort::start(std::vector<uint32_t> its_members, std::vector<uint32_t> its_predictors)
{
  members = std::move(its_members);
  size = members.size();
  predictors = std::move(its_predictors);
  make_room();
}

void cohort::start(const cohort& other, const std::vector<uint32_t>& columns)
{
  std::vector<uint32_t> its_members;
  for (const auto column : columns) { its_members.push_back(other.members[column]); }
  start(std::move(its_members), other.predictors);
  for (std::size_t row = 0; row < rows(); row += TILE)
  {
    for (std::size_t i = 0; i < size; ++i)
    {
      std::copy_n(&other.values[other.index(row, columns[i])], TILE, &values[index(row, i)]);
    }
  }
}

void cohort::append(uint32_t predictor)
{
  const std::size_t last = predictors.size();
  predictors.push_back(predictor);
  make_room();
  for (std::size_t i = 0; i < members.size(); ++i) { at(last + 1, i) = at(last, i); }
}

void cohort_entries::add(uint32_t cohort, uint32_t member, float value)
{
  if (_group_of.size() <= cohort) { _group_of.resize(cohort + std::size_t{1}, NONE); }
  auto& group = _group_of[cohort];
  if (group == NONE)
  {
    group = static_cast<uint32_t>(_groups.size());
    _groups.push_back({cohort, 0, nullptr});
  }
  ++_groups[group].size;
  _entries.push_back({group, member, value});
}

const std::vector<cohort_entries::group>& cohort_entries::sort()
{
  _sorted.resize(_entries.size());
  entry* place = _sorted.data();
  for (auto& group : _groups)
  {
    group.entries = place;
    place += group.size;
    group.size = 0;
  }
  for (const auto& entry : _entries)
  {
    auto& group = _groups[entry.group];
    group.entries[group.size++] = entry;
  }
  return _groups;
}

void cohort_entries::clear()
{
  for (const auto& group : _groups) { _group_of[group.cohort] = NONE; }
  _groups.clear();
  _entries.clear();
}

/// The number of a weight.
uint32_t weight_history::find(uint64_t weight) const
{
  const bool guessed = _next < _weights.size() && _weights[_next] == weight;
  const uint32_t number = guessed ? _next : _index.find(weight);
  if (number != NONE) { _next = number + 1; }
  return number;
}

uint32_t weight_history::add(uint64_t weight, place where)
{
  const auto number = static_cast<uint32_t>(_weights.size());
  _index.insert(weight, number);
  _weights.push_back(weight);
  _places.push_back(where);
  return number;
}

void weight_history::record(const std::vector<change>& changes)
{
  ++_calls;
  const uint32_t predictor = _past.rounds() + 1;
  const auto new_cohort = static_cast<uint32_t>(_cohorts.size());  // of weights that were never changed before
  std::vector<uint32_t> new_numbers;
  _new.clear();
  for (const auto& change : changes)
  {
    if (change.before == change.after) { continue; }
    const uint32_t number = find(change.weight);
    if (number == NONE)
    {
      new_numbers.push_back(add(change.weight, {new_cohort, static_cast<uint32_t>(_new.size()), _calls}));
      _new.push_back(change);
    }
    else if (_places[number].seen != _calls)
    {
      _places[number].seen = _calls;
      _changed.add(_places[number].cohort, number, change.after);
    }
  }
  if (!_new.empty())
  {
    _cohorts.emplace_back();
    auto& line = _cohorts.back();
    line.start(std::move(new_numbers), {predictor});
    for (std::size_t i = 0; i < _new.size(); ++i)
    {
      line.at(0, i) = _new[i].before;
      line.at(1, i) = _new[i].after;
    }
  }

  for (const auto& group : _changed.sort())
  {
    const bool few = 2 * group.size <= _cohorts[group.cohort].size;
    auto& line = few ? split(group.cohort, group) : _cohorts[group.cohort];
    if (line.predictors.back() != predictor)  // the round may have learnt before
    {
      if (_past.budget() != 0 && line.predictors.size() > _past.budget()) { coarsen(line); }
      line.append(predictor);
    }
    for (std::size_t i = 0; i < group.size; ++i)
    {
      line.at(line.predictors.size(), _places[group.entries[i].member].column) = group.entries[i].value;
    }
  }
  _changed.clear();
}

/// Gives some members of a cohort one of their own.
cohort& weight_history::split(uint32_t from, const cohort_entries::group& leaving)
{
  const auto to = static_cast<uint32_t>(_cohorts.size());
  std::vector<uint32_t> columns;
  for (std::size_t i = 0; i < leaving.size; ++i)
  {
    auto& place = _places[leaving.entries[i].member];
    columns.push_back(place.column);
    place.cohort = to;
    place.column = static_cast<uint32_t>(i);
  }
  _cohorts.emplace_back();
  auto& source = _cohorts[from];
  _cohorts.back().start(source, columns);
  for (const auto column : columns) { source.members[column] = NONE; }
  source.size -= columns.size();
  if (2 * source.size < source.members.size()) { compact(source); }
  return _cohorts.back();
}

/// Closes the gaps of members that have left.
void weight_history::compact(cohort& line)
{
  std::vector<uint32_t> columns;
  for (uint32_t i = 0; i < line.members.size(); ++i)
  {
    if (line.members[i] == NONE) { continue; }
    _places[line.members[i]].column = static_cast<uint32_t>(columns.size());
    columns.push_back(i);
  }
  cohort compacted;
  compacted.start(line, columns);
  line = std::move(compacted);
}

/// Replaces what is said of each segment by the average over the segment: all that is ever asked for.
void weight_history::coarsen(cohort& line)
{
  const auto& starts = _past.starts();
  const auto& predictors = line.predictors;
  const std::size_t n = predictors.size();
  const std::size_t width = line.members.size();
  cohort coarse;
  const auto append_copy = [&](uint32_t predictor, std::size_t row)
  {
    coarse.append(predictor);
    for (std::size_t i = 0; i < width; ++i) { coarse.at(coarse.predictors.size(), i) = line.at(row, i); }
  };
  const auto add_to_sums = [&](std::size_t row, uint32_t rounds)
  {
    for (std::size_t i = 0; i < width; ++i) { _sums[i] += static_cast<double>(line.at(row, i)) * rounds; }
  };

  coarse.start(line.members, {});
  coarse.size = line.size;
  for (std::size_t i = 0; i < width; ++i) { coarse.at(0, i) = line.at(0, i); }
  std::size_t segment = 0;
  std::size_t k = 0;
  while (k < n && predictors[k] < _past.rounds())
  {
    while (starts[segment + 1] <= predictors[k]) { ++segment; }
    const uint32_t start = starts[segment];
    const uint32_t end = starts[segment + 1];
    const bool changed_within = predictors[k] > start || (k + 1 < n && predictors[k + 1] < end);
    _sums.assign(width, 0.);
    add_to_sums(k, predictors[k] - start);
    for (; k < n && predictors[k] < end; ++k)
    {
      const uint32_t until = k + 1 < n ? std::min(predictors[k + 1], end) : end;
      add_to_sums(k + 1, until - predictors[k]);
    }
    coarse.append(start);
    for (std::size_t i = 0; i < width; ++i)
    {
      coarse.at(coarse.predictors.size(), i) = static_cast<float>(_sums[i] / (end - start));
    }
    // The next segment starts from the last value, not from the average.
    const bool next_changes =
        k < n && (end == _past.rounds() ? predictors[k] == end : predictors[k] < starts[segment + 2]);
    if (changed_within && !next_changes) { append_copy(end, k); }
  }
  for (; k < n; ++k) { append_copy(predictors[k], k + 1); }
  line = std::move(coarse);
}

void weight_history::past_predictions::start(const weight_history& history, double* changes)
{
  _history = &history;
  _changes = changes;
  _features.clear();
}

bool weight_history::past_predictions::add(uint64_t weight, float x)
{
  const uint32_t number = _history->find(weight);
  if (number == NONE) { return false; }
  const auto& place = _history->_places[number];
  _features.add(place.cohort, place.column, x);
  return true;
}

void weight_history::past_predictions::finish()
{
  const auto& groups = _features.sort();
  for (std::size_t g = 0; g < groups.size(); ++g)
  {
    // Cohorts, and what they hold, lie far apart: fetch those that are next but a few.
    if (g + 8 < groups.size()) { __builtin_prefetch(&_history->_cohorts[groups[g + 8].cohort]); }
    if (g + 4 < groups.size()) { prefetch(_history->_cohorts[groups[g + 4].cohort]); }
    const auto& group = groups[g];
    const auto& line = _history->_cohorts[group.cohort];
    if (_sums.size() < line.tiles() * cohort::TILE) { _sums.resize(line.tiles() * cohort::TILE); }
    sum_features(line.values.data(), line.members.size(), line.tiles(), group.entries, group.size, _sums.data());
    _changes[0] += _sums[0];
    spread(line.predictors);
  }
}

/// Spreads the changes from sum to sum over the rounds or segments.
void weight_history::past_predictions::spread(const std::vector<uint32_t>& predictors) const
{
  const auto& past = _history->_past;
  std::size_t n = predictors.size();
  while (n > 0 && predictors[n - 1] >= past.rounds()) { --n; }  // still to come
  double* changes = _changes;
  const double* sums = _sums.data();
  if (past.budget() == 0)
  {
    for (std::size_t k = 0; k < n; ++k) { changes[predictors[k]] += sums[k + 1] - sums[k]; }
    return;
  }
  const uint32_t* starts = past.starts().data();
  std::size_t segment = 0;
  for (std::size_t k = 0; k < n; ++k)
  {
    while (starts[segment + 1] <= predictors[k]) { ++segment; }
    const double change = sums[k + 1] - sums[k];
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

std::size_t weight_history::entries() const
{
  return std::accumulate(_cohorts.begin(), _cohorts.end(), std::size_t{0},
      [](std::size_t sum, const cohort& line) { return sum + line.size * line.predictors.size(); });
}

std::size_t weight_history::bytes() const
{
  std::size_t total = _index.bytes() + _weights.capacity() * sizeof(uint64_t) + _places.capacity() * sizeof(place) +
      _cohorts.capacity() * sizeof(cohort);
  for (const auto& line : _cohorts)
  {
    total += (line.predictors.capacity() + line.members.capacity()) * sizeof(uint32_t) +
        line.values.capacity() * sizeof(float);
  }
  return total;
}

std::string weight_history::serialize() const
{
  std::string bytes;
  const auto starts = _past.budget() == 0 ? std::vector<uint32_t>() : _past.starts();
  ::append(bytes, _past.budget());
  ::append(bytes, _past.rounds());
  append_all(bytes, starts);
  ::append(bytes, static_cast<uint64_t>(_cohorts.size()));
  for (const auto& line : _cohorts)
  {
    append_all(bytes, line.predictors);
    ::append(bytes, static_cast<uint64_t>(line.size));
    for (std::size_t i = 0; i < line.members.size(); ++i)
    {
      if (line.members[i] == NONE) { continue; }
      ::append(bytes, _weights[line.members[i]]);
      for (std::size_t row = 0; row < line.rows(); ++row) { ::append(bytes, line.at(row, i)); }
    }
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
  bool good = in.read(&saved_budget) && saved_budget == budget && in.read(&rounds) && rounds < UINT32_MAX - 1 &&
      in.read_all(starts) && _past.restore(rounds, std::move(starts)) && in.read(&count) && count < NONE;
  for (uint64_t i = 0; good && i < count; ++i)
  {
    std::vector<uint32_t> predictors;
    uint64_t members = 0;
    good = in.read_all(predictors) && !predictors.empty() && predictors.back() <= rounds + 1 &&
        strictly_increasing(predictors) && in.read(&members) && members > 0 && members < NONE - weights() &&
        in.left() / members >= sizeof(uint64_t) + (predictors.size() + 1) * sizeof(float);
    if (!good) { break; }
    std::vector<uint32_t> numbers(members);
    std::iota(numbers.begin(), numbers.end(), static_cast<uint32_t>(weights()));
    _cohorts.emplace_back();
    auto& line = _cohorts.back();
    line.start(std::move(numbers), std::move(predictors));
    for (uint32_t column = 0; good && column < members; ++column)
    {
      uint64_t weight = 0;
      good = in.read(&weight) && _index.find(weight) == NONE;
      if (!good) { break; }
      add(weight, {static_cast<uint32_t>(i), column, 0});
      for (std::size_t row = 0; good && row < line.rows(); ++row) { good = in.read(&line.at(row, column)); }
    }
  }
  good = good && in.left() == 0;
  if (!good) { *this = weight_history(budget); }
  return good;
}
}  // namespace opo_cmab
