#include "kernel/cohort.h"

#include <algorithm>
#include <utility>

namespace opo_cmab
{
void cohort::make_room() { values.resize(tiles() * members.size() * tile()); }

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
  its_members.reserve(columns.size());
  for (const auto column : columns) { its_members.push_back(other.members[column]); }
  start(std::move(its_members), other.predictors);
  for (std::size_t row = 0; row < rows(); row += tile())
  {
    for (std::size_t i = 0; i < size; ++i)
    {
      std::copy_n(&other.values[other.index(row, columns[i])], tile(), &values[index(row, i)]);
    }
  }
}

void cohort::append(uint32_t predictor)
{
  const std::size_t last = predictors.size();
  const std::size_t height = tile();
  predictors.push_back(predictor);
  if (tile() == height) { make_room(); }
  else  // there was one tile, which becomes higher
  {
    std::vector<float> old;
    old.swap(values);
    make_room();
    for (std::size_t i = 0; i < members.size(); ++i) { std::copy_n(&old[i * height], height, &values[i * tile()]); }
  }
  for (std::size_t i = 0; i < members.size(); ++i) { at(last + 1, i) = at(last, i); }
}

uint32_t cohort_entries::group_of(uint32_t cohort)
{
  if (_group_of.size() <= cohort) { _group_of.resize(cohort + std::size_t{1}, NONE); }
  auto& group = _group_of[cohort];
  if (group == NONE)
  {
    group = static_cast<uint32_t>(_groups.size());
    _groups.push_back({cohort, 0, nullptr});
  }
  return group;
}

const std::vector<cohort_entries::group>& cohort_entries::sort()
{
  if (_groups.size() == 1)
  {
    _groups[0].entries = _entries.data();
    return _groups;
  }
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
}  // namespace opo_cmab
