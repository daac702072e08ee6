#pragma once

#include "kernel/action_features.h"
#include "kernel/cohort.h"
#include "kernel/losses.h"
#include "kernel/segment_slots.h"
#include "kernel/segments.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
class weight_history;

/// What the past predictors f_1 .. f_n of each segment predict for the actions of one context: f_k is the predictor
/// before round k, or the average of those before the rounds of segment k. Kept as changes from predictor to predictor.
/// It owns its memory: whoever broke off in the middle, start begins with none.
class past_predictions
{
public:
  /// For the next context. The history must stay as it is until the predictions are taken.
  void start(const weight_history& history, std::size_t actions);

  /// The next action, feature by feature.
  /// \param now the value that the weight has now
  void add(uint64_t weight, float x, float now) { _features.add(weight, x, now); }
  void finish_action() { _features.finish_action(); }

  /// Predictions as they are, in place of start and what follows.
  /// \param rows of each segment, of each action
  void assign(const segments& past, const double* rows, std::size_t actions);

  const segments& past() const { return *_past; }
  std::size_t actions() const { return _actions; }

  /// Takes the losses of the next segments, each segment once.
  /// \param losses of each segment, of each action: set. Padded to a multiple of LANES with WORST_LOSS
  void take(std::size_t count, const loss_map& map, double* losses);

private:
  /// A weight that has no other weight in its cohort, or is in the pool.
  class single
  {
  public:
    uint32_t where;
    uint32_t size;  ///< in the pool
    float x;

    single(uint32_t where_it_is, uint32_t entries, float value) : where(where_it_is), size(entries), x(value) {}
  };

  const weight_history* _history = nullptr;
  const segments* _past = nullptr;
  std::size_t _actions = 0;
  std::size_t _size = 0;             ///< segments
  std::size_t _taken = 0;            ///< segments
  std::vector<double> _changes;      ///< of each action, of each segment and one beyond; zero once taken
  bool _clean = true;                ///< all of _changes is zero
  std::vector<double> _predictions;  ///< of each action, padded, the last that was taken

  action_features _features;
  std::vector<double> _common_changes;

  // Of an action:
  std::vector<uint32_t> _numbers;  ///< of the weights of its features
  std::vector<single> _singles;
  std::vector<change_sums> _slots;  ///< of each slot of a segment; zero once spread
  std::size_t _first_slot = 0;      ///< the first segment that may have some
  cohort_entries _grouped;          ///< features in larger cohorts: the weight's column, the feature's value
  std::vector<double> _sums;        ///< over the features in a cohort, of each row

  std::size_t row() const { return _size + 1; }
  void resize(const segments& past, std::size_t actions);
  void predict();
  void predict(const action_features::feature* features, std::size_t count, double* changes);
  double look_up(const action_features::feature* features, std::size_t n);
  void add_singles(double* changes);
  void add_pooled(double* changes);
  template <typename Value>
  void add_timeline(double* changes, double x, const std::vector<uint32_t>& predictors, const Value* values);
};
}  // namespace opo_cmab
