#include "kernel/weight_history.h"

#include <algorithm>
#include <utility>

namespace
{
using opo_cmab::segments;
using opo_cmab::timeline_entry;

/// Replaces what is said of each segment by the average over the segment: all that is ever asked for.
void coarsen_timeline(
    const segments& past, const std::vector<timeline_entry>& line, std::vector<timeline_entry>& coarse)
{
  const auto& starts = past.starts();
  const std::size_t n = line.size();
  coarse.resize(2 * n);  // the most that there can be
  std::size_t size = 0;
  coarse[size++] = line[0];
  std::size_t segment = 0;
  std::size_t k = 1;
  while (k < n && line[k].predictor < past.rounds())
  {
    while (starts[segment + 1] <= line[k].predictor) { ++segment; }
    const uint32_t start = starts[segment];
    const uint32_t end = starts[segment + 1];
    const bool changed_within = line[k].predictor > start || (k + 1 < n && line[k + 1].predictor < end);
    if (!changed_within)
    {
      coarse[size++] = line[k++];  // the average too
      continue;
    }
    double sum = static_cast<double>(line[k - 1].value) * (line[k].predictor - start);
    for (; k < n && line[k].predictor < end; ++k)
    {
      const uint32_t until = k + 1 < n ? std::min(line[k + 1].predictor, end) : end;
      sum += static_cast<double>(line[k].value) * (until - line[k].predictor);
    }
    coarse[size++] = {start, static_cast<float>(sum / (end - start))};
    // The next segment starts from the last value, not from the average.
    const bool next_changes =
        k < n && (end == past.rounds() ? line[k].predictor == end : line[k].predictor < starts[segment + 2]);
    if (!next_changes) { coarse[size++] = {end, line[k - 1].value}; }
  }
  for (; k < n; ++k) { coarse[size++] = line[k]; }
  coarse.resize(size);
}
}  // namespace

namespace opo_cmab
{
uint32_t weight_history::add(uint64_t weight, place where)
{
  const auto number = static_cast<uint32_t>(_weights.size());
  _index.insert(weight, number);
  make_room(_places);
  make_room(_seen);
  _weights.push_back(weight);
  _places.push_back(where);
  _seen.push_back(_call);
  return number;
}

void weight_history::end_round()
{
  const std::size_t merged = _past.append();
  if (_past.budget() != 0) { _slots.append(_past, merged); }
}

uint32_t weight_history::next_cohort() const
{
  return _free_cohorts.empty() ? static_cast<uint32_t>(_cohorts.size()) : _free_cohorts.back();
}

cohort& weight_history::add_cohort()
{
  const uint32_t number = next_cohort();
  if (number < _cohorts.size()) { _free_cohorts.pop_back(); }
  else
  {
    make_room(_cohorts);
    _cohorts.emplace_back();
  }
  return _cohorts[number];
}

void weight_history::record(const std::vector<change>& changes)
{
  if (++_call == 0)
  {
    std::fill(_seen.begin(), _seen.end(), uint16_t{0});
    _call = 1;
  }
  const uint32_t predictor = _past.rounds() + 1;
  std::vector<uint32_t> new_numbers;
  _new.clear();
  _changed.clear();
  for (const auto& change : changes)
  {
    if (change.before == change.after) { continue; }
    const uint32_t number = number_of(change.weight);
    if (number == NONE)
    {
      new_numbers.push_back(add(change.weight, {next_cohort(), static_cast<uint32_t>(_new.size()), 0}));
      _new.push_back(change);
      continue;
    }
    auto& place = _places[number];
    if (place.alone != 0 && pooled())  // a second time it changes nothing
    {
      append_alone(place, {predictor, change.after});
      continue;
    }
    if (_seen[number] == _call) { continue; }
    _seen[number] = _call;
    _changed.add(place.cohort, number, change.after);
  }
  if (!_new.empty()) { add_new(_new, std::move(new_numbers)); }

  for (const auto& group : _changed.sort())
  {
    const bool few = 2 * group.size <= _cohorts[group.cohort].size;
    const uint32_t number = few ? split(group.cohort, group) : group.cohort;
    if (few && group.size == 1 && pooled())
    {
      append_alone(_places[group.entries[0].member], {predictor, group.entries[0].value});
      continue;
    }
    auto& line = _cohorts[number];
    if (line.predictors.back() != predictor)  // the round may have learnt before
    {
      if (is_long(line.predictors.size())) { coarsen(line); }
      line.append(predictor);
    }
    for (std::size_t i = 0; i < group.size; ++i)
    {
      line.at(line.predictors.size(), _places[group.entries[i].member].column) = group.entries[i].value;
    }
  }
}

/// Weights that were never changed before, whose places say that they are in the next cohort.
void weight_history::add_new(const std::vector<change>& changes, std::vector<uint32_t> numbers)
{
  const uint32_t predictor = _past.rounds() + 1;
  if (numbers.size() == 1)
  {
    auto& place = _places[numbers[0]];
    place.alone = 1;
    if (pooled())
    {
      const timeline_entry entries[] = {{0, changes[0].before}, {predictor, changes[0].after}};
      place.cohort = _pool.insert(entries, 2);
      place.column = 2;
      return;
    }
  }
  auto& line = add_cohort();
  line.start(std::move(numbers), {predictor});
  for (std::size_t i = 0; i < changes.size(); ++i)
  {
    line.at(0, i) = changes[i].before;
    line.at(1, i) = changes[i].after;
  }
}

const std::vector<timeline_entry>& weight_history::entries_of(const cohort& line, uint32_t column)
{
  _entries.resize(line.rows());
  _entries[0] = {0, line.at(0, column)};
  for (std::size_t k = 1; k < _entries.size(); ++k) { _entries[k] = {line.predictors[k - 1], line.at(k, column)}; }
  return _entries;
}

void weight_history::to_pool(place& its, const cohort& line, uint32_t column)
{
  its.column = static_cast<uint32_t>(line.rows());
  its.cohort = _pool.insert(entries_of(line, column).data(), its.column);
}

/// One more entry of a timeline in the pool.
void weight_history::append_alone(place& its, timeline_entry entry)
{
  const uint32_t size = its.column;
  if (_pool.predictors(its.cohort)[size - 1] == entry.predictor)  // the round may have learnt before
  {
    _pool.values(its.cohort, size)[size - 1] = entry.value;
    return;
  }
  // Before it takes more room, which is worth trying now and then.
  const bool try_coarser = size % 16 == 0;
  if (is_long(size) || try_coarser)
  {
    _entries.resize(size);
    const auto* predictors = _pool.predictors(its.cohort);
    const auto* values = _pool.values(its.cohort, size);
    for (uint32_t k = 0; k < size; ++k) { _entries[k] = {predictors[k], values[k]}; }
    coarsen_timeline(_past, _entries, _coarse);
    if (_coarse.size() < size)
    {
      _pool.erase(its.cohort, size);
      its.column = static_cast<uint32_t>(_coarse.size());
      its.cohort = _pool.insert(_coarse.data(), its.column);
    }
  }
  its.cohort = _pool.append(its.cohort, its.column, entry);
  ++its.column;
}

/// Gives some members of a cohort one of their own, or a place in the pool. \return the number of the cohort
uint32_t weight_history::split(uint32_t from, const cohort_entries::group& leaving)
{
  const uint32_t to = next_cohort();
  std::vector<uint32_t> columns;
  for (std::size_t i = 0; i < leaving.size; ++i)
  {
    auto& place = _places[leaving.entries[i].member];
    columns.push_back(place.column);
    place.cohort = to;
    place.column = static_cast<uint32_t>(i);
    place.alone = leaving.size == 1 ? 1 : 0;
  }
  if (leaving.size == 1 && pooled())
  {
    cohort line;
    line.start(_cohorts[from], columns);
    to_pool(_places[leaving.entries[0].member], line, 0);
  }
  else
  {
    add_cohort();
    _cohorts[to].start(_cohorts[from], columns);
  }
  auto& source = _cohorts[from];
  for (const auto column : columns) { source.members[column] = NONE; }
  source.size -= columns.size();
  if (2 * source.size < source.members.size() || is_small(source.size)) { compact(from); }
  return to;
}

/// Closes the gaps of members that have left a cohort.
void weight_history::compact(uint32_t number)
{
  auto& line = _cohorts[number];
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
  if (!is_small(line.size)) { return; }
  for (uint32_t column = 0; column < line.size; ++column)
  {
    auto& place = _places[line.members[column]];
    place.alone = 1;
    if (pooled()) { to_pool(place, line, column); }
  }
  if (!pooled()) { return; }
  line = cohort();
  _free_cohorts.push_back(number);
}

/// The same for all members of a cohort.
void weight_history::coarsen(cohort& line)
{
  cohort coarse;
  for (uint32_t column = 0; column < line.members.size(); ++column)
  {
    coarsen_timeline(_past, entries_of(line, column), _coarse);
    if (column == 0)
    {
      std::vector<uint32_t> predictors;
      for (std::size_t k = 1; k < _coarse.size(); ++k) { predictors.push_back(_coarse[k].predictor); }
      coarse.start(line.members, std::move(predictors));
      coarse.size = line.size;
    }
    for (std::size_t k = 0; k < _coarse.size(); ++k) { coarse.at(k, column) = _coarse[k].value; }
  }
  line = std::move(coarse);
}

std::size_t weight_history::entries() const
{
  std::size_t total = 0;
  for (const auto& line : _cohorts) { total += line.size * line.predictors.size(); }
  for (const auto& place : _places)
  {
    if (place.alone != 0 && pooled()) { total += place.column - 1; }
  }
  return total;
}

std::size_t weight_history::bytes() const
{
  std::size_t total = _index.bytes() + _weights.bytes() + _places.capacity() * sizeof(place) +
      _seen.capacity() * sizeof(uint16_t) + _cohorts.capacity() * sizeof(cohort) +
      _free_cohorts.capacity() * sizeof(uint32_t) + _pool.bytes() + _slots.bytes();
  for (const auto& line : _cohorts)
  {
    total += (line.predictors.capacity() + line.members.capacity()) * sizeof(uint32_t) +
        line.values.capacity() * sizeof(float);
  }
  return total;
}
}  // namespace opo_cmab
