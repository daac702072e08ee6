#include "kernel/cost_range.h"

#include <algorithm>
#include <cmath>

namespace opo_cmab
{
void cost_range::fix_min(double min)
{
  _min = min;
  _min_is_fixed = true;
}

void cost_range::fix_max(double max)
{
  _max = max;
  _max_is_fixed = true;
}

bool cost_range::observe(double cost)
{
  const double old_min = _min;
  const double old_max = _max;
  const double step = known() ? width() / 8. : 0.;
  if (_min_is_fixed) { cost = std::max(cost, _min); }
  if (_max_is_fixed) { cost = std::min(cost, _max); }
  if (!_max_is_fixed && cost > old_max) { _max = std::max(cost, old_max + step); }
  if (!_min_is_fixed && cost < old_min) { _min = std::min(cost, old_min - step); }
  const bool changed = _min != old_min || _max != old_max;

  if (_count > 0 && _min != old_min) { _sum += static_cast<double>(_count) * (old_min - _min); }
  _sum += cost - _min;
  ++_count;
  if (changed && known()) { _start = std::min(LARGEST_START, 0.5 * _sum / (static_cast<double>(_count) * width())); }
  return changed;
}

double cost_range::loss(double cost) const { return std::min(1., std::max(0., (cost - _min) / width())); }

bool cost_range::restore(const state& saved)
{
  const bool nothing_seen = saved.min > saved.max;
  if ((_min_is_fixed && saved.min != _min) || (_max_is_fixed && saved.max != _max) || std::isnan(saved.min) ||
      std::isnan(saved.max) || (!nothing_seen && !std::isfinite(saved.max - saved.min)) ||
      !(saved.start >= 0. && saved.start <= LARGEST_START) || !(saved.sum >= 0.) || !std::isfinite(saved.sum))
  {
    return false;
  }
  _min = saved.min;
  _max = saved.max;
  _start = saved.start;
  _sum = saved.sum;
  _count = saved.count;
  return true;
}

void range_history::append(uint32_t predictor, const cost_range& range)
{
  if (!range.known()) { return; }
  if (_entries.empty()) { predictor = 0; }
  else if (_entries.back().min == range.min() && _entries.back().max == range.max()) { return; }
  _entries.push_back({predictor, range.min(), range.max(), range.start()});
}

std::vector<loss_map::piece> range_history::pieces(const segments& past, bool without_start) const
{
  if (_entries.empty()) { return {{SIZE_MAX, 0., 1.}}; }
  const double low = _entries.back().min;
  const double width = _entries.back().max - low;
  const auto end_of = [this](std::size_t i)
  { return i + 1 < _entries.size() ? _entries[i + 1].predictor : UINT32_MAX; };
  const auto scale = [&](std::size_t i) { return (_entries[i].max - _entries[i].min) / width; };
  const auto offset = [&](std::size_t i)
  { return (_entries[i].min - low) / width + (without_start ? 0. : scale(i) * _entries[i].start); };

  std::vector<loss_map::piece> result;
  std::size_t i = 0;
  if (past.budget() == 0)
  {
    for (; end_of(i) < past.rounds(); ++i) { result.push_back({end_of(i), offset(i), scale(i)}); }
  }
  for (std::size_t s = 0; past.budget() != 0 && s < past.size(); ++s)
  {
    const uint32_t start = past.starts()[s];
    const uint32_t end = past.starts()[s + 1];
    if (end_of(i) >= end) { continue; }  // one range throughout
    if (s > 0 && (result.empty() || result.back().end < s)) { result.push_back({s, offset(i), scale(i)}); }
    loss_map::piece average = {s + 1, 0., 0.};
    for (uint32_t from = start; from < end;)
    {
      while (end_of(i) <= from) { ++i; }
      const uint32_t until = std::min(end, end_of(i));
      const double share = static_cast<double>(until - from) / (end - start);
      average.offset += share * offset(i);
      average.scale += share * scale(i);
      from = until;
    }
    result.push_back(average);
  }
  result.push_back({SIZE_MAX, offset(i), scale(i)});
  return result;
}

bool range_history::restore(std::vector<entry> entries)
{
  for (std::size_t i = 0; i < entries.size(); ++i)
  {
    const auto& e = entries[i];
    const bool good = e.min < e.max && std::isfinite(e.max - e.min) && e.start >= 0. && e.start <= 1. &&
        (i == 0 ? e.predictor == 0
                : e.predictor > entries[i - 1].predictor && e.min <= entries[i - 1].min && e.max >= entries[i - 1].max);
    if (!good) { return false; }
  }
  _entries = std::move(entries);
  return true;
}
}  // namespace opo_cmab
