#pragma once

#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// All past predictors of a linear model without a copy of any. A round changes the weights of one example only; so of
// every weight its timeline is kept, the rounds that changed it and the values it took. With a budget, what is kept of
// a long segment of the past is the average of its predictors. Pure math, nothing of VW.
namespace opo_cmab
{
/// Weight -> number of its timeline. Open addressing: looked up for every feature of every prediction.
class weight_index
{
public:
  static constexpr uint32_t NONE = UINT32_MAX;

  uint32_t find(uint64_t weight) const;
  void insert(uint64_t weight, uint32_t timeline);  ///< the weight must be new
  void clear();
  std::size_t bytes() const { return _slots.capacity() * sizeof(slot); }

private:
  class slot
  {
  public:
    uint64_t weight = 0;
    uint32_t timeline = NONE;
  };

  std::vector<slot> _slots;  // a power of 2
  std::size_t _used = 0;

  std::size_t probe(uint64_t weight) const;
  void grow();
};

class weight_history
{
  class timeline;

public:
  /// \param budget the largest number of segments that the past is kept in; 0: every round by itself
  explicit weight_history(uint32_t budget = 0) : _past(budget) {}

  /// The round at hand has set a weight to `after`; before the round it was `before`.
  void record(uint64_t weight, float before, float after);
  void end_round() { _past.append(); }

  /// The rounds that have ended, in segments.
  const segments& past() const { return _past; }

  /// Turns an example, feature by feature, into the predictions f_1 .. f_n that the past predictors make for it. f_k is
  /// the predictor before round k, or the average of those before the rounds of segment k: what a round changes counts
  /// from the next one on.
  ///
  /// Weights that the same rounds have changed, as all of an example often are, are summed before their changes are
  /// spread over the rounds.
  class past_predictions
  {
  public:
    /// \param changes from predictor to predictor, f_1, f_2 - f_1, f_3 - f_2, ..: all zero before
    void start(const weight_history& history, double* changes);
    /// \return false, with nothing done, if no round has changed the weight: it always had the value that it has now
    bool add(uint64_t weight, float x);
    void add_unchanged(float weight, float x) { _changes[0] += static_cast<double>(x) * weight; }
    void finish();

  private:
    const weight_history* _history = nullptr;
    double* _changes = nullptr;
    const timeline* _group = nullptr;  ///< one of those changed in the same rounds that are being summed
    double _x = 0.;                    ///< its feature's value
    std::size_t _members = 0;
    std::vector<double> _sums;  ///< over the group if it has several members, for each of its rounds

    template <typename ChangeAt>
    void spread(ChangeAt change_at) const;
  };

  std::size_t weights() const { return _timelines.size(); }
  std::size_t entries() const { return _entries; }
  std::size_t bytes() const;

  /// The same history gives the same bytes.
  std::string serialize() const;
  /// \return false, and an empty history, if the bytes are not what serialize writes with this budget
  bool deserialize(const char* bytes, std::size_t size);

private:
  class timeline
  {
  public:
    uint64_t rounds_hash = 0;          ///< equal for timelines of the same rounds
    float initial = 0.f;               ///< the first of the values, here too: the vectors lie far away
    uint32_t latest = 0;               ///< the last of the predictors, likewise
    std::vector<uint32_t> predictors;  ///< the first that has the value, counted from 0; increasing
    std::vector<float> values;         ///< before, and from each of the predictors on

    void append(uint32_t predictor, float value);
    void clear();
  };

  segments _past;
  weight_index _index;
  std::vector<uint64_t> _weights;  ///< whose timelines these are
  std::vector<timeline> _timelines;
  std::size_t _entries = 0;
  mutable uint32_t _next = 0;  ///< a guess: features come in the order in which they came first
  uint32_t _previous = 0;      ///< the timeline that was recorded last
  timeline _work;              ///< room to work in
  std::vector<uint32_t> _both;

  uint32_t find(uint64_t weight) const;
  timeline& add(uint64_t weight, float initial);
  void align(timeline& a, timeline& b);
  void fill_in(timeline& line, const std::vector<uint32_t>& predictors);
  void replace(timeline& line);
  void coarsen(timeline& line);
};
}  // namespace opo_cmab
