#include "kernel/past_predictions.h"

#include "kernel/lanes.h"
#include "kernel/running_sums.h"
#include "kernel/vectorized.h"
#include "kernel/weight_history.h"

#include <algorithm>

namespace
{
using namespace opo_cmab;

/// \tparam HEIGHT of a tile, in rows
/// \tparam TOGETHER how many tiles are summed at once: a feature is read once for all of them
template <std::size_t HEIGHT, std::size_t TOGETHER>
OPO_CMAB_INLINE void sum_tiles(const float* __restrict values, std::size_t columns,
    const cohort_entries::entry* __restrict features, std::size_t n, double* __restrict sums)
{
  double total[TOGETHER * HEIGHT] = {};
  for (std::size_t i = 0; i < n; ++i)
  {
    const double x = features[i].value;
    const float* column = values + features[i].member * HEIGHT;
    for (std::size_t t = 0; t < TOGETHER; ++t)
    {
      const float* tile = column + t * columns * HEIGHT;
      for (std::size_t r = 0; r < HEIGHT; ++r) { total[t * HEIGHT + r] += x * static_cast<double>(tile[r]); }
    }
  }
  for (std::size_t r = 0; r < TOGETHER * HEIGHT; ++r) { sums[r] = total[r]; }
}

/// For each row of a cohort, the sum over features, column and value x: x times what the row has in the column.
OPO_CMAB_VECTORIZED
void sum_features(const float* values, std::size_t columns, std::size_t tile, std::size_t tiles,
    const cohort_entries::entry* features, std::size_t n, double* sums)
{
  // Less than cohort::TILE rows are one tile.
  if (tile == 2) { return sum_tiles<2, 1>(values, columns, features, n, sums); }
  if (tile == 4) { return sum_tiles<4, 1>(values, columns, features, n, sums); }
  constexpr std::size_t SIZE = cohort::TILE;
  std::size_t t = 0;
  for (; t + 2 <= tiles; t += 2)
  {
    sum_tiles<SIZE, 2>(values + t * columns * SIZE, columns, features, n, sums + t * SIZE);
  }
  if (t < tiles) { sum_tiles<SIZE, 1>(values + t * columns * SIZE, columns, features, n, sums + t * SIZE); }
}

/// Fetches the first rows of a cohort.
void prefetch(const cohort& line)
{
  constexpr std::size_t A_LINE = 64 / sizeof(float);
  constexpr std::size_t MOST = 4 * A_LINE;
  for (std::size_t i = 0; i < MOST && i < line.values.size(); i += A_LINE) { __builtin_prefetch(&line.values[i]); }
  for (std::size_t i = 0; i < MOST && i < line.predictors.size(); i += A_LINE)
  {
    __builtin_prefetch(&line.predictors[i]);
  }
}

/// Fetches a timeline in the pool. Always inlined: GCC drops calls of a function that does nothing but fetch.
OPO_CMAB_INLINE void prefetch(const opo_cmab::timeline_pool& pool, uint32_t where, uint32_t size)
{
  const auto* first = reinterpret_cast<const char*>(pool.predictors(where));
  const auto* end = reinterpret_cast<const char*>(pool.values(where, size) + size);
  for (; first < end; first += 64) { __builtin_prefetch(first); }
}

/// Without those that are still to come.
std::size_t past_rows(const std::vector<uint32_t>& predictors, uint32_t rounds)
{
  std::size_t n = predictors.size();
  while (n > 0 && predictors[n - 1] >= rounds) { --n; }
  return n;
}
}  // namespace

namespace opo_cmab
{
void past_predictions::resize(const segments& past, std::size_t actions)
{
  if (!_clean)  // the last were not all taken
  {
    std::fill(_changes.begin(), _changes.end(), 0.);
    _slots.clear();
  }
  _past = &past;
  _actions = actions;
  _size = past.size();
  _features.clear();
  _taken = 0;
  _clean = _size == 0;
  _predictions.assign(up_to_lanes(actions), 0.);
  if (_changes.size() < row() * actions) { _changes.resize(row() * actions); }
}

void past_predictions::start(const weight_history& history, std::size_t actions)
{
  _history = &history;
  resize(history.past(), actions);
}

/// From the features of all actions to their predictions.
void past_predictions::predict()
{
  if (_past->budget() != 0) { _features.take_out_common(); }
  for (std::size_t a = 0; a < _features.actions(); ++a)
  {
    predict(_features.of_action(a), _features.size(a), &_changes[a * row()]);
  }
  const auto& common = _features.common();
  if (common.empty()) { return; }
  _common_changes.assign(row(), 0.);
  predict(common.data(), common.size(), _common_changes.data());
  for (std::size_t a = 0; a < _features.actions(); ++a)
  {
    double* changes = &_changes[a * row()];
    for (std::size_t k = 0; k < _size; ++k) { changes[k] += _common_changes[k]; }
  }
}

/// \param changes of the predictions by these features: added to
void past_predictions::predict(const action_features::feature* features, std::size_t count, double* changes)
{
  const bool exact = _past->budget() == 0;
  if (!exact) { _slots.resize(_history->slots().size()); }
  _first_slot = _size;
  changes[0] += look_up(features, count);
  if (_history->pooled()) { add_pooled(changes); }
  else { add_singles(changes); }
  const auto& cohorts = _history->cohorts();
  const auto& groups = _grouped.sort();
  for (std::size_t g = 0; g < groups.size(); ++g)
  {
    // Cohorts, and what they hold, lie far apart: fetch those that are next but a few.
    if (g + 8 < groups.size()) { __builtin_prefetch(&cohorts[groups[g + 8].cohort]); }
    if (g + 4 < groups.size()) { prefetch(cohorts[groups[g + 4].cohort]); }
    const auto& group = groups[g];
    const auto& line = cohorts[group.cohort];
    if (_sums.size() < line.tiles() * cohort::TILE) { _sums.resize(line.tiles() * cohort::TILE); }
    sum_features(
        line.values.data(), line.members.size(), line.tile(), line.tiles(), group.entries, group.size, _sums.data());
    add_timeline(changes, 1., line.predictors, _sums.data());
  }
  if (!exact) { _history->slots().spread(_slots.data(), _first_slot, changes); }
}

/// Looks up where the timelines of features are. Each look-up waits for memory, so some are under way at once.
/// \return the prediction from weights that no round has changed
double past_predictions::look_up(const action_features::feature* features, std::size_t n)
{
  constexpr std::size_t AHEAD = 16;
  _singles.clear();
  _grouped.clear();
  double unchanged = 0.;
  const bool pooled = _history->pooled();
  const auto& places = _history->places();
  const auto& cohorts = _history->cohorts();
  for (uint32_t i = 0; i < std::min(n, AHEAD); ++i) { _history->prefetch(features[i].weight); }
  _numbers.resize(n);
  for (std::size_t i = 0; i < n; ++i)
  {
    if (i + AHEAD < n) { _history->prefetch(features[i + AHEAD].weight); }
    const uint32_t number = _history->number_of(features[i].weight);
    _numbers[i] = number;
    if (number == NONE) { unchanged += static_cast<double>(features[i].x) * features[i].now; }
    else { __builtin_prefetch(&places[number]); }
  }
  for (std::size_t i = 0; i < n; ++i)
  {
    if (_numbers[i] == NONE) { continue; }
    const auto& place = places[_numbers[i]];
    if (place.alone != 0)
    {
      if (!pooled) { __builtin_prefetch(&cohorts[place.cohort]); }
      _singles.emplace_back(place.cohort, place.column, features[i].x);
    }
    else { _grouped.add(place.cohort, place.column, features[i].x); }
  }
  return unchanged;
}

/// Singles that are cohorts of one.
void past_predictions::add_singles(double* changes)
{
  constexpr std::size_t AHEAD = 6;
  const auto& cohorts = _history->cohorts();
  const std::size_t count = _singles.size();
  for (std::size_t i = 0; i < std::min(count, AHEAD); ++i) { prefetch(cohorts[_singles[i].where]); }
  for (std::size_t i = 0; i < count; ++i)
  {
    if (i + AHEAD < count) { prefetch(cohorts[_singles[i + AHEAD].where]); }
    const auto& line = cohorts[_singles[i].where];
    add_timeline(changes, _singles[i].x, line.predictors, line.values.data());
  }
}

/// Singles that are in the pool.
OPO_CMAB_VECTORIZED
void past_predictions::add_pooled(double* changes)
{
  constexpr std::size_t AHEAD = 8;
  const auto& pool = _history->pool();
  const auto& slots = _history->slots();
  const std::size_t count = _singles.size();
  for (std::size_t i = 0; i < std::min(count, AHEAD); ++i) { prefetch(pool, _singles[i].where, _singles[i].size); }
  double first = 0.;
  std::size_t earliest = _first_slot;
  for (std::size_t i = 0; i < count; ++i)
  {
    if (i + AHEAD < count) { prefetch(pool, _singles[i + AHEAD].where, _singles[i + AHEAD].size); }
    const double x = _singles[i].x;
    const auto* values = pool.values(_singles[i].where, _singles[i].size);
    first += x * values[0];
    const std::size_t first_slot = slots.add(changes, _slots.data(), *_past, x, pool.predictors(_singles[i].where) + 1,
        values, _singles[i].size - std::size_t{1});
    earliest = std::min(earliest, first_slot);
  }
  changes[0] += first;
  _first_slot = earliest;
}

template <typename Value>
void past_predictions::add_timeline(
    double* changes, double x, const std::vector<uint32_t>& predictors, const Value* values)
{
  changes[0] += x * values[0];
  if (_past->budget() != 0)
  {
    const std::size_t first =
        _history->slots().add(changes, _slots.data(), *_past, x, predictors.data(), values, predictors.size());
    _first_slot = std::min(_first_slot, first);
    return;
  }
  const std::size_t n = past_rows(predictors, _past->rounds());
  for (std::size_t k = 0; k < n; ++k)
  {
    changes[predictors[k]] += x * (static_cast<double>(values[k + 1]) - values[k]);
  }
}

void past_predictions::assign(const segments& past, const double* rows, std::size_t actions)
{
  resize(past, actions);
  for (std::size_t a = 0; a < actions; ++a)
  {
    for (std::size_t k = 0; k < _size; ++k)
    {
      _changes[a * row() + k] = rows[k * actions + a] - (k > 0 ? rows[(k - 1) * actions + a] : 0.);
    }
  }
}

void past_predictions::take(std::size_t count, const loss_map& map, double* losses)
{
  if (_taken == 0) { predict(); }
  const std::size_t width = _predictions.size();
  std::size_t groups = 0;
  for (std::size_t a = 0; a < width; a += groups * LANES)
  {
    groups = a + LANES < width ? 2 : 1;
    const double* changes[2 * LANES];
    for (std::size_t i = 0; i < groups * LANES; ++i)
    {
      changes[i] = &_changes[std::min(a + i, _actions - 1) * row() + _taken];  // padding: any
    }
    running_sums(changes, groups, count, &_predictions[a], losses + a, width);
  }
  for (std::size_t a = 0; a < _actions; ++a) { std::fill_n(&_changes[a * row() + _taken], count, 0.); }
  to_losses(losses, count, width, _taken, map);
  for (std::size_t a = _actions; a < width; ++a)
  {
    for (std::size_t k = 0; k < count; ++k) { losses[k * width + a] = WORST_LOSS; }
  }
  _taken += count;
  if (_taken < _size) { return; }
  for (std::size_t a = 0; a < _actions; ++a) { _changes[a * row() + _size] = 0.; }
  _clean = true;
}
}  // namespace opo_cmab
