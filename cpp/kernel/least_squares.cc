#include "kernel/least_squares.h"

#include "kernel/bytes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace opo_cmab
{
namespace
{
constexpr float PENALTIES[] = {0.3f, 3.f, 30.f};  // of the candidates with blocks
constexpr float PENALTY_ALONE = 1.f;              // of the one without
constexpr std::size_t FIRST_CHOICE = 1;           // candidate, until there are errors
constexpr double FORGET = 0.999;                  // of past errors
constexpr double LARGEST_ERROR = 64.;             // squared, in variances of the labels: larger ones count as this
constexpr std::size_t JOIN_AT_ONCE = 1024;        // weights; later ones join a block when they are learnt again
constexpr float LARGEST_GROWTH = 1e6f;            // of a feature, at once: larger values count as this
constexpr double LARGEST_WEIGHT = 1e9;            // of an example

/// The variance of a sum whose parts, independent at first, have been observed together in as many rounds as they can
/// have been: in n rounds that leave a part with variance v = 1 / (1 / prior + n), the parts with more rounds were
/// observed without it in the others. Exact for one part, for parts that always occur together, and for new parts.
/// \param parts the prior variance and v of each; reordered
double variance_together(std::vector<std::array<double, 2>>& parts)
{
  for (auto& part : parts)
  {
    auto& rounds = part[1];
    rounds = rounds > 0. ? std::max(0., 1. / rounds - 1. / part[0]) : HUGE_VAL;
  }
  std::sort(parts.begin(), parts.end(),
      [](const std::array<double, 2>& a, const std::array<double, 2>& b) { return a[1] > b[1]; });
  double variance = 0.;
  for (std::size_t i = 0; i < parts.size(); ++i)
  {
    variance += parts[i][0];
    const double next = i + 1 < parts.size() ? parts[i + 1][1] : 0.;
    const double alone_together = parts[i][1] == next ? 0. : parts[i][1] - next;
    variance = 1. / (1. / variance + alone_together);
  }
  return variance;
}
}  // namespace

least_squares::least_squares(uint32_t block, float penalty) : _largest_block(block), _adapts(penalty == 0.f)
{
  const bool blocks = block > 1;
  if (!_adapts) { _candidates.push_back({penalty, blocks}); }
  else
  {
    for (const float each : PENALTIES) { _candidates.push_back({each, blocks}); }
    _candidates.push_back({PENALTY_ALONE, false});
    _best = FIRST_CHOICE;
  }
  for (const auto& each : _candidates) { _with_blocks += each.blocks ? 1 : 0; }
  _errors.resize(_candidates.size());
}

double least_squares::clip(double label) const
{
  return _adapts && _min <= _max ? std::min(_max, std::max(_min, label)) : label;
}

double least_squares::predict(const std::vector<feature>& features, double initial) const
{
  state sum;
  for (const auto& x : features)
  {
    const uint32_t i = _index.find(x.weight);
    if (i == NONE || _places[i].scale == 0.f) { continue; }
    const auto& known = _states[i * _candidates.size() + _best];
    const double z = x.value / _places[i].scale;
    sum.cost += known.cost * z;
    sum.one += known.one * z;
  }
  return clip(_origin + sum.cost + (initial - _origin) * (1. - sum.one));
}

/// Looks up the weights of an example, and adds up its features on each.
/// \param add weights that are new, instead of noting them as unknown
void least_squares::collect(const std::vector<feature>& features, bool add)
{
  for (const auto& x : features)
  {
    uint32_t i = _index.find(x.weight);
    if (i == NONE && !add)
    {
      _unknown.push_back(x);
      continue;
    }
    if (i == NONE)
    {
      i = static_cast<uint32_t>(_numbers.size());
      _index.insert(x.weight, i);
      _numbers.push_back(x.weight);
      _places.emplace_back();
      _marks.push_back(0);
      _states.resize(_states.size() + _candidates.size());
      for (const auto& each : _candidates) { _d.push_back(1.f / each.penalty); }
    }
    if (_marks[i] != 0) { _active[_marks[i] - 1].value += x.value; }
    else
    {
      _active.push_back({i, x.value});
      _marks[i] = static_cast<uint32_t>(_active.size());
    }
  }
  if (_unknown.size() > 1)
  {
    std::sort(_unknown.begin(), _unknown.end(), [](const feature& a, const feature& b) { return a.weight < b.weight; });
    std::size_t last = 0;
    for (std::size_t i = 1; i < _unknown.size(); ++i)
    {
      if (_unknown[i].weight == _unknown[last].weight) { _unknown[last].value += _unknown[i].value; }
      else { _unknown[++last] = _unknown[i]; }
    }
    _unknown.resize(last + 1);
  }
}

/// Values become z, in units of the largest value of each feature.
void least_squares::add_units()
{
  for (auto& x : _active)
  {
    auto& scale = _places[x.weight].scale;
    if (!_adapts) { scale = 1.f; }
    float size = std::abs(x.value);
    if (scale == 0.f) { scale = size; }
    else if (size > scale && _adapts)
    {
      size = std::min(size, LARGEST_GROWTH * scale);
      grow(x.weight, size / scale);
      x.value = std::copysign(size, x.value);
      scale = size;
    }
    x.value = scale == 0.f ? 0.f : x.value / scale;
  }
}

/// A weight is for a feature `factor` times as large: no prediction changes, but its prior is that of the new unit. The
/// difference is learnt as one more observation, that the weight is 0.
void least_squares::grow(uint32_t weight, float factor)
{
  auto& at = _places[weight];
  const std::size_t candidates = _candidates.size();
  for (std::size_t k = 0; k < candidates; ++k)
  {
    const double certainty = _candidates[k].penalty * (1. - 1. / (static_cast<double>(factor) * factor));
    auto& own = _states[weight * candidates + k];
    own.cost *= factor;
    own.one *= factor;
    if (at.block == NONE || !_candidates[k].blocks)
    {
      auto& d = _d[weight * candidates + k];
      const double variance = static_cast<double>(d) * factor * factor;
      const double left = 1. / (1. + certainty * variance);
      d = static_cast<float>(variance * left);
      own.cost *= left;
      own.one *= left;
      continue;
    }
    auto& home = _blocks[at.block];
    auto& factors = home.factors[k];
    std::vector<float> d(factors.capacity());
    std::vector<float> f(factors.capacity());
    std::vector<float> along(factors.capacity());
    for (std::size_t m = 0; m < home.members.size(); ++m) { d[m] = _d[home.members[m] * candidates + k]; }
    factors.scale(d.data(), at.row, factor);
    factors.row(at.row, f.data());
    factors.observe(d.data(), f.data(), at.row + 1, 1. / certainty, along.data());
    const double share = 1. / (1. / certainty + along[at.row]);
    const state before = own;
    for (std::size_t m = 0; m < home.members.size(); ++m)
    {
      auto& member = _states[home.members[m] * candidates + k];
      _d[home.members[m] * candidates + k] = d[m];
      member.cost -= along[m] * share * before.cost;
      member.one -= along[m] * share * before.one;
    }
  }
}

/// Gives weights without a block one: that which has room and most of the example's weights, or a new one. While there
/// are few weights they join at once. Later ones have to occur twice: of words, half never do.
void least_squares::assign_blocks()
{
  const std::size_t at_once = std::max<std::size_t>(JOIN_AT_ONCE, _largest_block);
  std::vector<uint32_t> joining;
  std::vector<std::array<uint32_t, 2>> rooms;  // how many of the example's weights a block has, and the block
  for (const auto& x : _active)
  {
    auto& at = _places[x.weight];
    if (at.block == NONE && (at.learnt > 0 || _numbers.size() <= at_once)) { joining.push_back(x.weight); }
    if (at.learnt < 2) { ++at.learnt; }
  }
  if (joining.empty()) { return; }
  for (const auto& x : _active)
  {
    const uint32_t b = _places[x.weight].block;
    if (b == NONE || _blocks[b].members.size() == _largest_block) { continue; }
    const auto found =
        std::find_if(rooms.begin(), rooms.end(), [b](const std::array<uint32_t, 2>& room) { return room[1] == b; });
    if (found == rooms.end()) { rooms.push_back({1, b}); }
    else { ++(*found)[0]; }
  }
  std::sort(rooms.begin(), rooms.end(),
      [](const std::array<uint32_t, 2>& a, const std::array<uint32_t, 2>& b)
      { return a[0] != b[0] ? a[0] > b[0] : a[1] < b[1]; });
  std::size_t room = 0;
  for (const uint32_t weight : joining)
  {
    while (room < rooms.size() && _blocks[rooms[room][1]].members.size() == _largest_block) { ++room; }
    if (room == rooms.size())
    {
      rooms.push_back({0, static_cast<uint32_t>(_blocks.size())});
      _blocks.emplace_back();
      _block_groups.push_back(0);
      _blocks.back().factors.resize(_with_blocks);
    }
    join(weight, rooms[room][1]);
  }
}

void least_squares::join(uint32_t weight, uint32_t block)
{
  auto& home = _blocks[block];
  _places[weight].block = block;
  _places[weight].row = static_cast<uint32_t>(home.members.size());
  home.members.push_back(weight);
  for (auto& factors : home.factors) { factors.reserve(home.members.size()); }
}

/// Sorts the example's weights into blocks, and spreads z over the rows of each.
void least_squares::arrange()
{
  std::size_t rows = 0;
  for (uint32_t i = 0; i < _active.size(); ++i)
  {
    const auto& at = _places[_active[i].weight];
    if (at.block == NONE)
    {
      _alone.push_back(i);
      continue;
    }
    auto& number = _block_groups[at.block];
    if (number == 0)
    {
      _groups.push_back({at.block, 0, rows, 0});
      number = static_cast<uint32_t>(_groups.size());
      rows += rows_of(at.block);
      _z.resize(rows);
    }
    auto& g = _groups[number - 1];
    ++g.weights;
    g.end = std::max<std::size_t>(g.end, at.row + 1);
    _z[g.offset + at.row] = _active[i].value;
  }
  _f.resize(rows);
}

void least_squares::forget_example()
{
  for (const auto& x : _active) { _marks[x.weight] = 0; }
  for (const auto& g : _groups) { _block_groups[g.block] = 0; }
  _active.clear();
  _unknown.clear();
  _groups.clear();
  _alone.clear();
  _z.clear();
}

/// v of a block. \param f becomes L'z
double least_squares::group_variance(std::size_t candidate, const group& g, float* f) const
{
  const auto& home = _blocks[g.block];
  home.factors[candidate].project(&_z[g.offset], g.end, f);
  double result = 0.;
  for (std::size_t j = 0; j < g.end; ++j)
  {
    result += static_cast<double>(_d[home.members[j] * _candidates.size() + candidate]) * f[j] * f[j];
  }
  return result;
}

/// \return the sum of v over all blocks. Leaves L'z of each in _f
double least_squares::project(std::size_t candidate)
{
  double sum = 0.;
  const auto alone = [&](const active& x)
  { sum += static_cast<double>(_d[x.weight * _candidates.size() + candidate]) * x.value * x.value; };
  if (!_candidates[candidate].blocks)
  {
    for (const auto& x : _active) { alone(x); }
    return sum;
  }
  for (const auto& g : _groups) { sum += group_variance(candidate, g, &_f[g.offset]); }
  for (const uint32_t i : _alone) { alone(_active[i]); }
  return sum;
}

double least_squares::variance(const std::vector<feature>& features)
{
  collect(features, false);
  for (auto& x : _active)
  {
    const float scale = _places[x.weight].scale;
    if (x.value != 0.f) { x.value = scale == 0.f ? 1.f : x.value / scale; }
  }
  arrange();

  const auto& in_use = _candidates[_best];
  const double prior = 1. / in_use.penalty;
  _variances.clear();
  const auto alone = [&](const active& x)
  {
    const double square = static_cast<double>(x.value) * x.value;
    if (square > 0.) { _variances.push_back({square * prior, square * _d[x.weight * _candidates.size() + _best]}); }
  };
  if (!in_use.blocks)
  {
    for (const auto& x : _active) { alone(x); }
  }
  else
  {
    for (const uint32_t i : _alone) { alone(_active[i]); }
    for (const auto& g : _groups)
    {
      const float* z = &_z[g.offset];
      const double square = std::inner_product(z, z + g.end, z, 0.);
      if (square > 0.) { _variances.push_back({square * prior, group_variance(_best, g, &_f[g.offset])}); }
    }
  }
  for (const auto& x : _unknown)  // in its own unit, which would be its scale
  {
    const double square = _adapts ? 1. : static_cast<double>(x.value) * x.value;
    if (x.value != 0.f) { _variances.push_back({square * prior, square * prior}); }
  }
  forget_example();
  return variance_together(_variances);
}

least_squares::state least_squares::predict_active(std::size_t candidate) const
{
  state sum;
  for (const auto& x : _active)
  {
    const auto& known = _states[x.weight * _candidates.size() + candidate];
    sum.cost += known.cost * x.value;
    sum.one += known.one * x.value;
  }
  return sum;
}

/// Learns, from L'z in _f.
/// \param error_of_cost, error_of_one divided by the sum of v and 1 / weight
void least_squares::update(
    std::size_t candidate, double error_of_cost, double error_of_one, double weight, double denominator)
{
  const std::size_t candidates = _candidates.size();
  const auto move = [&](uint32_t i, double gain)
  {
    auto& own = _states[i * candidates + candidate];
    own.cost += gain * error_of_cost;
    own.one += gain * error_of_one;
  };
  const auto alone = [&](const active& x)
  {
    auto& d = _d[x.weight * candidates + candidate];
    const double along = static_cast<double>(d) * x.value;
    move(x.weight, along);
    d = static_cast<float>(d / (1. + weight * along * x.value));
  };
  if (!_candidates[candidate].blocks)
  {
    for (const auto& x : _active)
    {
      auto& d = _d[x.weight * candidates + candidate];
      const double along = static_cast<double>(d) * x.value;
      move(x.weight, along);
      d = static_cast<float>(d - along * along / denominator);
    }
    return;
  }
  for (const uint32_t i : _alone) { alone(_active[i]); }
  std::array<float, LARGEST_BLOCK> d;
  std::array<float, LARGEST_BLOCK> along;
  for (const auto& g : _groups)
  {
    auto& home = _blocks[g.block];
    const std::size_t count = home.members.size();
    for (std::size_t m = 0; m < count; ++m) { d[m] = _d[home.members[m] * candidates + candidate]; }
    std::fill_n(along.begin(), rows_of(g.block), 0.f);
    home.factors[candidate].observe(d.data(), &_f[g.offset], g.end, 1. / weight, along.data());
    for (std::size_t m = 0; m < count; ++m)
    {
      _d[home.members[m] * candidates + candidate] = d[m];
      move(home.members[m], along[m]);
    }
  }
}

void least_squares::observe_label(double label, double weight)
{
  const double distance = label - _origin - _mean;
  _count += weight;
  _mean += distance * weight / _count;
  _squares += weight * distance * (label - _origin - _mean);
  _min = std::min(_min, label);
  _max = std::max(_max, label);
}

double least_squares::learn(const std::vector<feature>& features, double label, double weight, double initial)
{
  if (!(weight > 0.)) { return predict(features, initial); }
  weight = std::min(weight, LARGEST_WEIGHT);
  if (_count == 0.) { _origin = label; }
  collect(features, true);
  add_units();
  if (_with_blocks > 0) { assign_blocks(); }
  arrange();

  const double relative_label = label - _origin;
  const double unit = _count > 0. ? _squares / _count : 0.;
  double result = 0.;
  for (std::size_t k = 0; k < _candidates.size(); ++k)
  {
    const double variance = project(k);
    const auto predicted = predict_active(k);
    const double value = predicted.cost + (initial - _origin) * (1. - predicted.one);
    if (k == _best) { result = clip(_origin + value); }
    if (unit > 0.)
    {
      const double error = value - relative_label;
      _errors[k] = FORGET * _errors[k] + std::min(LARGEST_ERROR, error * error / unit);
    }
    const double denominator = 1. / weight + variance;
    update(k, (relative_label - predicted.cost) / denominator, (1. - predicted.one) / denominator, weight, denominator);
  }
  observe_label(label, weight);
  if (unit > 0.)
  {
    _best = static_cast<std::size_t>(std::min_element(_errors.begin(), _errors.end()) - _errors.begin());
  }
  forget_example();
  return result;
}

double least_squares::weight(std::size_t i, double initial) const
{
  const auto& own = _states[i * _candidates.size() + _best];
  return _places[i].scale == 0.f ? 0. : (own.cost - (initial - _origin) * own.one) / _places[i].scale;
}

std::size_t least_squares::bytes() const
{
  std::size_t result = _index.bytes() + _numbers.capacity() * sizeof(uint64_t) + _places.capacity() * sizeof(place) +
      _states.capacity() * sizeof(state) + _d.capacity() * sizeof(float) + _marks.capacity() * sizeof(uint32_t);
  for (const auto& each : _blocks)
  {
    result += sizeof(block) + each.members.capacity() * sizeof(uint32_t) + each.factors.size() * sizeof(triangle);
    for (const auto& factors : each.factors) { result += factors.values().capacity() * sizeof(float); }
  }
  return result;
}

std::string least_squares::serialize() const
{
  std::string bytes;
  append_bytes(bytes, _largest_block);
  append_bytes(bytes, static_cast<uint64_t>(_candidates.size()));
  for (const auto& each : _candidates) { append_bytes(bytes, each.penalty); }
  append_bytes(bytes, static_cast<uint64_t>(_best));
  append_bytes(bytes, _errors);
  for (const double value : {_origin, _mean, _squares, _count, _min, _max}) { append_bytes(bytes, value); }
  append_bytes(bytes, _numbers);
  append_bytes(bytes, _places);
  append_bytes(bytes, _states);
  append_bytes(bytes, _d);
  append_bytes(bytes, static_cast<uint64_t>(_blocks.size()));
  for (const auto& each : _blocks)
  {
    append_bytes(bytes, each.members);
    for (const auto& factors : each.factors) { append_bytes(bytes, factors.values()); }
  }
  return bytes;
}

bool least_squares::deserialize(const char* bytes, std::size_t size)
{
  byte_reader reader(bytes, size);
  least_squares read(_largest_block, _adapts ? 0.f : _candidates[0].penalty);
  uint32_t largest_block = 0;
  uint64_t candidates = 0;
  uint64_t best = 0;
  uint64_t blocks = 0;
  if (!reader.read(largest_block) || largest_block != _largest_block || !reader.read(candidates) ||
      candidates != _candidates.size())
  {
    return false;
  }
  for (const auto& each : _candidates)
  {
    float penalty = 0.f;
    if (!reader.read(penalty) || penalty != each.penalty) { return false; }
  }
  if (!reader.read(best) || best >= candidates || !reader.read(read._errors) || !reader.read(read._origin) ||
      !reader.read(read._mean) || !reader.read(read._squares) || !reader.read(read._count) || !reader.read(read._min) ||
      !reader.read(read._max) || !reader.read(read._numbers) || !reader.read(read._places) ||
      !reader.read(read._states) || !reader.read(read._d) || !reader.read(blocks))
  {
    return false;
  }
  const std::size_t weights = read._numbers.size();
  if (read._errors.size() != candidates || read._places.size() != weights ||
      read._states.size() != weights * candidates || read._d.size() != weights * candidates || blocks > weights)
  {
    return false;
  }
  read._best = best;
  read._blocks.resize(blocks);
  std::size_t members = 0;
  for (uint32_t b = 0; b < blocks; ++b)
  {
    auto& each = read._blocks[b];
    if (!reader.read(each.members) || each.members.empty() || each.members.size() > _largest_block) { return false; }
    for (uint32_t row = 0; row < each.members.size(); ++row)
    {
      const uint32_t weight = each.members[row];
      if (weight >= weights || read._places[weight].block != b || read._places[weight].row != row) { return false; }
    }
    members += each.members.size();
    each.factors.resize(_with_blocks);
    for (auto& factors : each.factors)
    {
      std::vector<float> values;
      if (!reader.read(values) || !factors.restore(each.members.size(), std::move(values))) { return false; }
    }
  }
  const auto in_blocks =
      std::count_if(read._places.begin(), read._places.end(), [](const place& at) { return at.block != NONE; });
  if (reader.left() != 0 || members != static_cast<std::size_t>(in_blocks)) { return false; }
  read._marks.resize(weights);
  read._block_groups.resize(blocks);
  for (uint32_t i = 0; i < weights; ++i)
  {
    if (read._index.find(read._numbers[i]) != NONE) { return false; }
    read._index.insert(read._numbers[i], i);
  }
  *this = std::move(read);
  return true;
}
}  // namespace opo_cmab
