#include "kernel/weight_history.h"

#include <algorithm>
#include <utility>

namespace
{
/// Makes room for one more, a quarter more than there are rather than as many again.
template <typename T>
void make_room(std::vector<T>& values)
{
  if (values.size() == values.capacity()) { values.reserve(values.size() + values.size() / 4 + 16); }
}
}  // namespace

namespace opo_cmab
{
uint32_t weight_history::add(uint64_t weight, place where)
{
  const auto number = static_cast<uint32_t>(_weights.size());
  _index.insert(weight, number);
  make_room(_weights);
  make_room(_places);
  _weights.push_back(weight);
  _places.push_back(where);
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
  ++_calls;
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
      new_numbers.push_back(add(change.weight, {next_cohort(), static_cast<uint32_t>(_new.size()), _calls, 0}));
      _new.push_back(change);
      continue;
    }
    auto& place = _places[number];
    if (place.seen == _calls) { continue; }
    place.seen = _calls;
    if (place.alone != 0 && pooled()) { append_alone(place.cohort, {predictor, change.after}); }
    else { _changed.add(place.cohort, number, change.after); }
  }
  if (!_new.empty()) { add_new(_new, std::move(new_numbers)); }

  for (const auto& group : _changed.sort())
  {
    const bool few = 2 * group.size <= _cohorts[group.cohort].size;
    const uint32_t number = few ? split(group.cohort, group) : group.cohort;
    if (few && group.size == 1 && pooled())
    {
      append_alone(_places[group.entries[0].member].cohort, {predictor, group.entries[0].value});
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

/// The timeline of the only member of a cohort.
const timeline_entry* weight_history::entries_of(const cohort& line)
{
  _entries.clear();
  _entries.push_back({0, line.at(0, 0)});
  for (std::size_t k = 0; k < line.predictors.size(); ++k)
  {
    _entries.push_back({line.predictors[k], line.at(k + 1, 0)});
  }
  return _entries.data();
}

uint32_t weight_history::to_pool(const cohort& line)
{
  return _pool.insert(entries_of(line), static_cast<uint32_t>(line.rows()));
}

/// One more entry of a timeline in the pool. \param where it is: set
void weight_history::append_alone(uint32_t& where, timeline_entry entry)
{
  const uint32_t size = _pool.size(where);
  auto* entries = _pool.entries(where);
  if (entries[size - 1].predictor == entry.predictor)  // the round may have learnt before
  {
    entries[size - 1].value = entry.value;
    return;
  }
  constexpr uint32_t WORTHWHILE = 24;
  if (is_long(size + 1) || (size >= WORTHWHILE && _pool.full(where)))
  {
    cohort line;
    line.start({0}, {});
    line.at(0, 0) = entries[0].value;
    for (uint32_t k = 1; k < size; ++k)
    {
      line.append(entries[k].predictor);
      line.at(k, 0) = entries[k].value;
    }
    coarsen(line);
    if (is_long(size + 1) || 4 * line.rows() <= 3 * size)
    {
      where = _pool.assign(where, entries_of(line), static_cast<uint32_t>(line.rows()));
    }
  }
  where = _pool.append(where, entry);
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
    _places[leaving.entries[0].member].cohort = to_pool(line);
  }
  else
  {
    add_cohort();
    _cohorts[to].start(_cohorts[from], columns);
  }
  auto& source = _cohorts[from];
  for (const auto column : columns) { source.members[column] = NONE; }
  source.size -= columns.size();
  if (2 * source.size < source.members.size() || source.size == 1) { compact(from); }
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
  if (line.size != 1) { return; }
  auto& place = _places[line.members[0]];
  place.alone = 1;
  if (!pooled()) { return; }
  place.cohort = to_pool(line);
  line = cohort();
  _free_cohorts.push_back(number);
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

std::size_t weight_history::entries() const
{
  std::size_t total = 0;
  for (const auto& line : _cohorts) { total += line.size * line.predictors.size(); }
  for (const auto& place : _places)
  {
    if (place.alone != 0 && pooled()) { total += _pool.size(place.cohort) - 1; }
  }
  return total;
}

std::size_t weight_history::bytes() const
{
  std::size_t total = _index.bytes() + _weights.capacity() * sizeof(uint64_t) + _places.capacity() * sizeof(place) +
      _cohorts.capacity() * sizeof(cohort) + _free_cohorts.capacity() * sizeof(uint32_t) + _pool.bytes() +
      _slots.bytes();
  for (const auto& line : _cohorts)
  {
    total += (line.predictors.capacity() + line.members.capacity()) * sizeof(uint32_t) +
        line.values.capacity() * sizeof(float);
  }
  return total;
}
}  // namespace opo_cmab
