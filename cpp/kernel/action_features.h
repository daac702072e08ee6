#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// The features of the actions of one context. Those that all actions have in the same place, which are mostly those of
/// the context itself, can be taken out: their past predictions then are summed once, not once per action.
class action_features
{
public:
  class feature
  {
  public:
    uint64_t weight;
    float x;
    float now;  ///< the value that the weight has now

    // Made where it is kept: copied as a whole right after its parts were written, it would wait for them.
    feature(uint64_t its_weight, float value, float weight_now) : weight(its_weight), x(value), now(weight_now) {}
    bool operator==(const feature& other) const { return weight == other.weight && x == other.x; }
  };

  void clear();
  /// One more feature of the next action.
  void add(uint64_t weight, float x, float now) { _features.emplace_back(weight, x, now); }
  void finish_action() { _ends.push_back(_features.size()); }

  /// Takes out what all actions have, if it is enough to be worthwhile.
  void take_out_common();
  const std::vector<feature>& common() const { return _common; }  ///< what was taken out

  std::size_t actions() const { return _ends.size(); }
  const feature* of_action(std::size_t a) const { return _features.data() + first(a); }
  std::size_t size(std::size_t a) const { return _ends[a] - first(a); }

private:
  std::vector<feature> _features;  ///< of all actions
  std::vector<std::size_t> _ends;  ///< of the features of each action
  std::vector<feature> _common;
  std::vector<std::size_t> _common_places;  ///< of the features that all actions have
  std::vector<char> _is_common;             ///< of each feature of an action

  std::size_t first(std::size_t a) const { return a == 0 ? 0 : _ends[a - 1]; }
};
}  // namespace opo_cmab
