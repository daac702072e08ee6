#include "kernel/weight_history.h"

#include <algorithm>
#include <numeric>

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

void weight_history::record(const std::vector<change>& changes)
{
  ++_calls;
  const uint32_t predictor = _past.rounds() + 1;
  const auto new_cohort = static_cast<uint32_t>(_cohorts.size());  // of weights that were never changed before
  std::vector<uint32_t> new_numbers;
  _new.clear();
  _changed.clear();
  for (const auto& change : changes)
  {
    if (change.before == change.after) { continue; }
    const uint32_t number = number_of(change.weight);
    if (number == NONE)
    {
      new_numbers.push_back(add(change.weight, {new_cohort, static_cast<uint32_t>(_new.size()), _calls, 0}));
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
    make_room(_cohorts);
    _cohorts.emplace_back();
    auto& line = _cohorts.back();
    if (new_numbers.size() == 1) { _places[new_numbers[0]].alone = 1; }
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
      if (_past.budget() != 0 && 2 * line.predictors.size() > 3 * std::size_t{_past.budget()}) { coarsen(line); }
      line.append(predictor);
    }
    for (std::size_t i = 0; i < group.size; ++i)
    {
      line.at(line.predictors.size(), _places[group.entries[i].member].column) = group.entries[i].value;
    }
  }
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
    place.alone = leaving.size == 1 ? 1 : 0;
  }
  make_room(_cohorts);
  _cohorts.emplace_back();
  auto& source = _cohorts[from];
  _cohorts.back().start(source, columns);
  for (const auto column : columns) { source.members[column] = NONE; }
  source.size -= columns.size();
  if (2 * source.size < source.members.size() || source.size == 1) { compact(source); }
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
  if (line.size == 1) { _places[line.members[columns[0]]].alone = 1; }
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
}  // namespace opo_cmab
