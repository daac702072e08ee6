#include "kernel/cost_range.h"

#include <algorithm>
#include <cmath>

namespace opo_cmab
{
namespace
{
constexpr double DEVIATIONS = 2.;   // half the width of the range, in standard deviations
constexpr double TOLERANCE = 0.25;  // how far an end may be off before the range moves, as a share of the width

// Of cost_range::tame:
constexpr uint64_t LEAST_KNOWN = 5;   // costs, before one is doubted
constexpr double FAR = 10.;           // times the spread
constexpr uint64_t MOST_DOUBTED = 2;  // costs
}  // namespace

double cost_range::clip(double cost) const { return std::min(std::max(cost, _lower_limit), _upper_limit); }

double cost_range::least() const { return std::isfinite(_lower_limit) ? _lower_limit : _state.min; }
double cost_range::most() const { return std::isfinite(_upper_limit) ? _upper_limit : _state.max; }

double cost_range::tame(double cost) const
{
  cost = clip(cost);
  if (!tames || !known() || _state.count < LEAST_KNOWN) { return cost; }
  const double lowest = std::min(least(), min());  // a limit may be newer than the costs
  const double highest = std::max(most(), max());
  const double far = FAR * (highest - lowest);
  if (cost >= lowest - far && cost <= highest + far) { return cost; }
  const double room = _state.far_costs < MOST_DOUBTED ? 0. : far;
  return clip(std::min(std::max(cost, lowest - room), highest + room));
}

double cost_range::observe(double cost)
{
  auto& s = _state;
  const double counts_as = tame(cost);
  if (counts_as != clip(cost)) { ++s.far_costs; }
  const bool was_known = known();
  s.min = std::min(s.min, counts_as);
  s.max = std::max(s.max, counts_as);
  if (s.count == 0) { s.first = counts_as; }
  ++s.count;
  const double difference = counts_as - s.first;
  s.sum += difference;
  s.squares += difference * difference;

  const auto n = static_cast<double>(s.count);
  const double mean = s.sum / n;
  const double deviation = std::sqrt(std::max(0., s.squares / n - mean * mean));
  double low = s.min - s.first;
  double high = s.max - s.first;
  if (deviation > 0.)
  {
    low = std::max(low, mean - DEVIATIONS * deviation);
    high = std::min(high, mean + DEVIATIONS * deviation);
  }
  const double most = TOLERANCE * (high - low);
  const bool moves = !was_known || std::abs(low - s.low) > most || std::abs(high - s.high) > most;
  if (known() && moves)
  {
    s.low = low;
    s.high = high;
    s.start = std::min(LARGEST_START, 0.5 * (mean - low) / (high - low));
  }
  return counts_as;
}

double cost_range::loss(double cost) const
{
  return (clip(cost) - _state.first - _state.low) / (_state.high - _state.low);
}

void cost_range::observe_newcomer(double counts_as)
{
  _state.newcomer_sum += counts_as - _state.first;
  ++_state.newcomers;
}

double cost_range::newcomer_loss(double start) const
{
  if (!knows_newcomers()) { return start; }
  const auto n = static_cast<double>(_state.newcomers);
  const double mean = (_state.newcomer_sum / n - _state.low) / (_state.high - _state.low);
  return (EXPECTED_AS * start + n * std::min(1., std::max(0., mean))) / (EXPECTED_AS + n);
}

double cost_range::shift(double lowest_loss) const
{
  return std::max(0., std::min(lowest_loss + ROOM_ABOVE, loss(max())) - 1.);
}

bool cost_range::restore(const state& saved)
{
  const bool nothing_seen = saved.min > saved.max;
  const bool is_known = saved.min < saved.max;
  const auto finite = [](double x) { return std::isfinite(x); };
  const bool good = !std::isnan(saved.min) && !std::isnan(saved.max) &&
      (nothing_seen || finite(saved.max - saved.min)) && finite(saved.low) && finite(saved.high) &&
      (!is_known || saved.low < saved.high) && saved.start >= 0. && saved.start <= LARGEST_START &&
      finite(saved.first) && finite(saved.sum) && saved.squares >= 0. && finite(saved.squares) &&
      finite(saved.newcomer_sum);
  if (good) { _state = saved; }
  return good;
}

void range_history::append(uint32_t predictor, const cost_range& range)
{
  if (!range.known()) { return; }
  if (_entries.empty()) { predictor = 0; }
  const auto& now = range.save();
  if (!_entries.empty() && _entries.back().low == now.low && _entries.back().high == now.high) { return; }
  _entries.push_back({predictor, now.low, now.high, now.start});
}

std::vector<loss_map::piece> range_history::pieces(const segments& past, bool without_start) const
{
  if (_entries.empty()) { return {{SIZE_MAX, 0., 1.}}; }
  const double low = _entries.back().low;
  const double width = _entries.back().high - low;
  const auto end_of = [this](std::size_t i)
  { return i + 1 < _entries.size() ? _entries[i + 1].predictor : UINT32_MAX; };
  const auto scale = [&](std::size_t i) { return (_entries[i].high - _entries[i].low) / width; };
  const auto offset = [&](std::size_t i)
  { return (_entries[i].low - low) / width + (without_start ? 0. : scale(i) * _entries[i].start); };

  std::vector<loss_map::piece> result;
  std::size_t i = 0;
  if (past.budget() == 0)
  {
    for (; end_of(i) < past.rounds(); ++i) { result.push_back({end_of(i), offset(i), scale(i)}); }
  }
  for (std::size_t s = 0; past.budget() != 0 && s < past.size() && i + 1 < _entries.size(); ++s)
  {
    const uint32_t start = past.starts()[s];
    const uint32_t end = past.starts()[s + 1];
    if (end_of(i) >= end) { continue; }  // the segment has one range
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
    const bool good = e.low < e.high && std::isfinite(e.high - e.low) && e.start >= 0. && e.start <= 1. &&
        (i == 0 ? e.predictor == 0 : e.predictor > entries[i - 1].predictor);
    if (!good) { return false; }
  }
  _entries = std::move(entries);
  return true;
}
}  // namespace opo_cmab
