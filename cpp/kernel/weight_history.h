#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

// All past predictors of a linear model without a copy of any. A round changes the weights of one example only; so of
// every weight its timeline is kept, the rounds that changed it and the values it took. Pure math, nothing of VW.
namespace opo_cmab
{
class weight_history
{
public:
  /// Round number `round` (the first is 0) has set a weight to `after`; before the round it was `before`.
  void record(uint64_t weight, uint32_t round, float before, float after);

  /// Adds the contribution x w(k) of a weight to the predictions f_1 .. f_rounds of one action, as changes from
  /// predictor to predictor. f_k is the predictor before round k: what a round changes counts from the next one on.
  /// \param now the weight's value, which it always had if no round is known to have changed it
  /// \param changes of each round, of each of n actions; this action's are at changes[0], changes[n], changes[2n], ..
  void add_past(uint64_t weight, float x, float now, double* changes, std::size_t rounds, std::size_t n) const;

  std::size_t weights() const { return _timelines.size(); }
  std::size_t entries() const { return _entries; }
  std::size_t bytes() const;

  /// The same history gives the same bytes.
  std::string serialize() const;
  /// \return false, and an empty history, if the bytes are not what serialize writes
  bool deserialize(const char* bytes, std::size_t size);

private:
  class entry
  {
  public:
    uint32_t predictor;  ///< the first that has the value, counted from 0
    float value;
  };

  class timeline
  {
  public:
    float initial;
    std::vector<entry> entries;
  };

  std::unordered_map<uint64_t, timeline> _timelines;
  std::size_t _entries = 0;
};
}  // namespace opo_cmab
