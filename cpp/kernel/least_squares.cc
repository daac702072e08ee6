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
constexpr float KEPT_ALONE = 0.9f;                // by it: it follows changes
constexpr std::size_t FIRST_CHOICE = 1;           // candidate, until there are errors
constexpr double FORGET = 0.999;                  // of past errors
constexpr double LARGEST_ERROR = 64.;             // squared, in variances of the labels: larger ones count as this
constexpr std::size_t FIRST_WEIGHTS = 1024;       // they join a block at once; later ones when they are learnt again
constexpr uint32_t LATER_BLOCK = 8;               // the room of blocks that are opened after that
constexpr std::size_t MOST_IN_BLOCKS = 1 << 20;   // weights; all others are alone
constexpr float LARGEST_FEATURE = 1e15f;          // in its own unit: larger values count as this
constexpr float LARGEST_GROWTH = 1000.f;          // of a feature's scale, in one example
constexpr float LARGEST_Z = 100.f;                // larger ones count as this
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
  if (!_adapts) { _candidates.push_back({penalty, blocks, 1.f}); }
  else
  {
    for (const float each : PENALTIES) { _candidates.push_back({each, blocks, 1.f}); }
    _candidates.push_back({PENALTY_ALONE, false, KEPT_ALONE});
    _best = FIRST_CHOICE;
  }
  for (const auto& each : _candidates) { _with_blocks += each.blocks ? 1 : 0; }
  _errors.resize(_candidates.size());
}

double least_squares::clip(double label) const
{
  return _adapts && _min <= _max ? std::min(_max, std::max(_min, label)) : label;
}

/// In a loop of its own, so that memory is fetched for many at once.
void least_squares::look_up(const std::vector<feature>& features)
{
  _looked_up.clear();
  for (const auto& x : features)
  {
    const uint32_t i = _index.find(x.weight);
    _looked_up.push_back(i);
    if (i == NONE) { continue; }
    __builtin_prefetch(&_places[i]);
    __builtin_prefetch(&_states[i * _candidates.size() + _best]);
  }
}

double least_squares::predict(const std::vector<feature>& features, double initial)
{
  look_up(features);
  state sum;
  for (std::size_t n = 0; n < features.size(); ++n)
  {
    const uint32_t i = _looked_up[n];
    if (i == NONE || _places[i].scale == 0.f) { continue; }
    const auto& known = _states[i * _candidates.size() + _best];
    const double z = in_units(_places[i], features[n].value);
    sum.cost += known.cost * z;
    sum.one += known.one * z;
  }
  return clip(_origin + sum.cost + (initial - _origin) * (1. - sum.one));
}

/// Looks up the weights of an example, and adds up its features on each.
/// \param add weights that are new, instead of noting them as unknown
void least_squares::collect(const std::vector<feature>& features, bool add)
{
  look_up(features);
  for (std::size_t n = 0; n < features.size(); ++n)
  {
    const auto& x = features[n];
    uint32_t i = _looked_up[n] != NONE || !add ? _looked_up[n] : _index.find(x.weight);  // new, or new twice
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
      for (const auto& each : _candidates) { _variances.push_back(1.f / each.penalty); }
    }
    if (_marks[i] != 0)
    {
      auto& same = _active[_marks[i] - 1];
      same.value += x.value;
      same.largest = std::max(same.largest, std::abs(x.value));
    }
    else
    {
      _active.push_back({i, x.value, std::abs(x.value)});
      _marks[i] = static_cast<uint32_t>(_active.size());
      if (_places[i].block != NONE) { __builtin_prefetch(&_blocks[_places[i].block]); }
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

/// z of the sum of an example's features on a weight.
float least_squares::in_units(const place& at, float value) const
{
  const float largest = _adapts ? LARGEST_Z : LARGEST_FEATURE;
  return std::min(largest, std::max(-largest, value / at.scale));
}

/// Values become z. The unit of a feature is its largest value so far; a value far beyond all before it counts as less.
void least_squares::add_units()
{
  for (auto& x : _active)
  {
    if (x.largest == 0.f) { continue; }
    auto& scale = _places[x.weight].scale;
    const float size = std::min(x.largest, LARGEST_FEATURE);
    if (!_adapts) { scale = 1.f; }
    else if (scale == 0.f) { scale = size; }
    else if (size > scale)
    {
      const float factor = std::min(size / scale, LARGEST_GROWTH);
      grow(x.weight, factor);
      scale *= factor;
    }
    x.value = in_units(_places[x.weight], x.value);
  }
}

/// A weight is for a feature `factor` times as large: no prediction changes, but its prior is that of the new unit. The
/// difference is learnt as one more observation, that the weight is 0.
void least_squares::grow(uint32_t weight, float factor)
{
  auto& at = _places[weight];
  at.observed /= factor * factor;
  const std::size_t candidates = _candidates.size();
  for (std::size_t k = 0; k < candidates; ++k)
  {
    const double certainty = _candidates[k].penalty * (1. - 1. / (static_cast<double>(factor) * factor));
    auto& own = _states[weight * candidates + k];
    own.cost *= factor;
    own.one *= factor;
    if (at.block == NONE || !_candidates[k].blocks)
    {
      auto& variance = _variances[weight * candidates + k];
      const double larger = static_cast<double>(variance) * factor * factor;
      const double left = 1. / (1. + certainty * larger);
      variance = static_cast<float>(larger * left);
      own.cost *= left;
      own.one *= left;
      continue;
    }
    auto& home = _blocks[at.block];
    const std::size_t rows = rows_of(home);
    auto* covariance = covariance_of(home, k);
    _f.assign(rows, 0.f);
    _along.assign(rows, 0.f);
    scale(covariance, rows, at.row, factor);
    copy_row(covariance, rows, at.row, _f.data());
    opo_cmab::observe(covariance, rows, _f.data(), at.row + 1, static_cast<float>(1. / certainty), _along.data());
    const double share = 1. / (1. / certainty + _along[at.row]);
    const state before = own;
    for (std::size_t m = 0; m < home.members.size(); ++m)
    {
      auto& member = _states[home.members[m] * candidates + k];
      member.cost -= _along[m] * share * before.cost;
      member.one -= _along[m] * share * before.one;
    }
  }
}

/// Gives weights without a block one: that which has room and most of the example's weights, or a new one. While there
/// are few weights they join at once. Later ones have to occur twice: of words, half never do.
void least_squares::assign_blocks()
{
  const bool first = _numbers.size() <= std::max<std::size_t>(FIRST_WEIGHTS, _largest_block);
  std::vector<uint32_t> joining;
  std::vector<std::array<uint32_t, 2>> rooms;  // how many of the example's weights a block has, and the block
  for (const auto& x : _active)
  {
    const auto& at = _places[x.weight];
    if (at.block == NONE && (at.observed > 0.f || first)) { joining.push_back(x.weight); }
  }
  if (joining.empty() || _in_blocks >= MOST_IN_BLOCKS) { return; }
  for (const auto& x : _active)
  {
    const uint32_t b = _places[x.weight].block;
    if (b == NONE || is_full(b)) { continue; }
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
    while (room < rooms.size() && is_full(rooms[room][1])) { ++room; }
    if (room == rooms.size())
    {
      rooms.push_back({0, static_cast<uint32_t>(_blocks.size())});
      _blocks.emplace_back();
      _blocks.back().room = first ? _largest_block : std::min(_largest_block, LATER_BLOCK);
    }
    join(weight, rooms[room][1]);
  }
}

void least_squares::join(uint32_t weight, uint32_t block)
{
  auto& home = _blocks[block];
  _places[weight].block = block;
  _places[weight].row = static_cast<uint32_t>(home.members.size());
  const std::size_t rows = rows_of(home);
  home.members.push_back(weight);
  if (rows_of(home) > rows)
  {
    const std::size_t size = covariance_size(rows);
    const std::size_t larger = covariance_size(rows_of(home));
    std::vector<float> covariances(_with_blocks * larger);
    for (std::size_t k = 0; k < _with_blocks; ++k)
    {
      copy_covariance(home.covariances.data() + k * size, rows, covariances.data() + k * larger, rows_of(home));
    }
    home.covariances = std::move(covariances);
  }
  for (std::size_t k = 0; k < _with_blocks; ++k)
  {
    covariance_of(home, k)[_places[weight].row] = _variances[weight * _candidates.size() + k];
  }
  ++_in_blocks;
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
    auto& number = _blocks[at.block].group;
    if (number == 0)
    {
      _groups.push_back({at.block, rows, 0, 0.});
      number = static_cast<uint32_t>(_groups.size());
      rows += rows_of(_blocks[at.block]);
      _z.resize(rows);
    }
    auto& g = _groups[number - 1];
    g.end = std::max<std::size_t>(g.end, at.row + 1);
    _z[g.offset + at.row] = _active[i].value;
  }
  _f.assign(rows, 0.f);
  for (const auto& g : _groups)  // memory is fetched for all blocks at once
  {
    const auto& home = _blocks[g.block];
    constexpr std::size_t LINE = 64;  // bytes
    __builtin_prefetch(home.members.data());
    for (std::size_t i = 0; i < home.covariances.size(); i += LINE / sizeof(float))
    {
      __builtin_prefetch(&home.covariances[i], 1);
    }
  }
  for (const auto& g : _groups)
  {
    for (const uint32_t member : _blocks[g.block].members)
    {
      __builtin_prefetch(&_states[member * _candidates.size()], 1);
    }
  }
}

void least_squares::forget_example()
{
  for (const auto& x : _active) { _marks[x.weight] = 0; }
  for (const auto& g : _groups) { _blocks[g.block].group = 0; }
  _active.clear();
  _unknown.clear();
  _groups.clear();
  _alone.clear();
  _z.clear();
}

/// \return the sum of v over all blocks. Leaves L'z of each in _f
double least_squares::project(std::size_t candidate)
{
  double sum = 0.;
  const auto alone = [&](const active& x)
  { sum += static_cast<double>(_variances[x.weight * _candidates.size() + candidate]) * x.value * x.value; };
  if (!_candidates[candidate].blocks)
  {
    for (const auto& x : _active) { alone(x); }
    return sum;
  }
  for (auto& g : _groups)
  {
    auto& home = _blocks[g.block];
    g.variance = opo_cmab::project(covariance_of(home, candidate), rows_of(home), &_z[g.offset], g.end, &_f[g.offset]);
    sum += g.variance;
  }
  for (const uint32_t i : _alone) { alone(_active[i]); }
  return sum;
}

double least_squares::variance(const std::vector<feature>& features)
{
  collect(features, false);
  for (auto& x : _active)
  {
    const auto& at = _places[x.weight];
    if (at.scale != 0.f) { x.value = in_units(at, x.value); }
    else if (_adapts && x.value != 0.f) { x.value = 1.f; }  // in its own unit, which would be its scale
  }
  arrange();

  const auto& in_use = _candidates[_best];
  project(_best);
  const double prior = 1. / in_use.penalty;
  _parts.clear();
  // Without forgetting, a weight has the variance of its own rounds: that in update() is larger, for what is learnt
  // together would go too far, and together they are taken below.
  const auto alone = [&](const active& x)
  {
    const double square = static_cast<double>(x.value) * x.value;
    if (square == 0.) { return; }
    const double variance = in_use.keep < 1.f ? _variances[x.weight * _candidates.size() + _best]
                                              : 1. / (in_use.penalty + _places[x.weight].observed);
    _parts.push_back({square * prior, square * variance});
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
      if (square > 0.) { _parts.push_back({square * prior, g.variance}); }
    }
  }
  for (const auto& x : _unknown)  // in its own unit, which would be its scale
  {
    const double square = _adapts ? 1. : static_cast<double>(x.value) * x.value;
    if (x.value != 0.f) { _parts.push_back({square * prior, square * prior}); }
  }
  forget_example();
  return variance_together(_parts);
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
  if (!_candidates[candidate].blocks)
  {
    const float keep = _candidates[candidate].keep;
    const float most = 1.f / _candidates[candidate].penalty;
    for (const auto& x : _active)
    {
      auto& d = _variances[x.weight * candidates + candidate];
      const double along = static_cast<double>(d) * x.value;
      move(x.weight, along);
      d = std::min(most, static_cast<float>(d - along * along / denominator) / keep);
    }
    return;
  }
  for (const uint32_t i : _alone)
  {
    const auto& x = _active[i];
    auto& d = _variances[x.weight * candidates + candidate];
    const double along = static_cast<double>(d) * x.value;
    move(x.weight, along);
    d = static_cast<float>(d / (1. + weight * along * x.value));
  }
  for (const auto& g : _groups)
  {
    auto& home = _blocks[g.block];
    _along.assign(rows_of(home), 0.f);
    opo_cmab::observe(covariance_of(home, candidate), rows_of(home), &_f[g.offset], g.end,
        static_cast<float>(1. / weight), _along.data());
    for (std::size_t m = 0; m < home.members.size(); ++m) { move(home.members[m], _along[m]); }
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
  _learnt_unknown = std::all_of(
      _active.begin(), _active.end(), [this](const active& x) { return _places[x.weight].observed == 0.f; });
  add_units();
  if (_with_blocks > 0) { assign_blocks(); }
  for (const auto& x : _active) { _places[x.weight].observed += static_cast<float>(weight * x.value * x.value); }
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
      _states.capacity() * sizeof(state) + _variances.capacity() * sizeof(float) + _marks.capacity() * sizeof(uint32_t);
  for (const auto& each : _blocks)
  {
    result += sizeof(block) + each.members.capacity() * sizeof(uint32_t) + each.covariances.capacity() * sizeof(float);
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
  append_bytes(bytes, _variances);
  append_bytes(bytes, static_cast<uint64_t>(_blocks.size()));
  for (const auto& each : _blocks)
  {
    append_bytes(bytes, each.room);
    append_bytes(bytes, each.members);
    append_bytes(bytes, each.covariances);
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
      !reader.read(read._states) || !reader.read(read._variances) || !reader.read(blocks))
  {
    return false;
  }
  const std::size_t weights = read._numbers.size();
  if (read._errors.size() != candidates || read._places.size() != weights ||
      read._states.size() != weights * candidates || read._variances.size() != weights * candidates || blocks > weights)
  {
    return false;
  }
  read._best = best;
  read._blocks.resize(blocks);
  for (uint32_t b = 0; b < blocks; ++b)
  {
    auto& each = read._blocks[b];
    if (!reader.read(each.room) || each.room > _largest_block || !reader.read(each.members) || each.members.empty() ||
        each.members.size() > each.room)
    {
      return false;
    }
    for (uint32_t row = 0; row < each.members.size(); ++row)
    {
      const uint32_t weight = each.members[row];
      if (weight >= weights || read._places[weight].block != b || read._places[weight].row != row) { return false; }
    }
    read._in_blocks += each.members.size();
    if (!reader.read(each.covariances) || each.covariances.size() != _with_blocks * covariance_size(rows_of(each)))
    {
      return false;
    }
  }
  const auto in_blocks =
      std::count_if(read._places.begin(), read._places.end(), [](const place& at) { return at.block != NONE; });
  if (reader.left() != 0 || read._in_blocks != static_cast<std::size_t>(in_blocks)) { return false; }
  read._marks.resize(weights);
  for (uint32_t i = 0; i < weights; ++i)
  {
    if (read._index.find(read._numbers[i]) != NONE) { return false; }
    read._index.insert(read._numbers[i], i);
  }
  *this = std::move(read);
  return true;
}
}  // namespace opo_cmab
