#pragma once

#include "kernel/least_squares.h"
#include "reductions/explorer_state.h"
#include "vw/config/options.h"
#include "vw/core/metric_sink.h"
#include "vw/core/setup_base.h"
#include "vw/core/vw_fwd.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace opo_cmab
{
/// The base learner of --least_squares, and what reductions for bandits above it may ask of it.
class least_squares_learner
{
public:
  least_squares_learner(VW::workspace& all, uint32_t block, float penalty);

  void predict(VW::example& ec);
  void learn(VW::example& ec);
  float sensitivity(VW::example& ec);
  void save_load(VW::io_buf& io, bool read, bool text);
  void end_pass();
  void persist_metrics(VW::metric_sink& metrics) const;

  uint64_t early_terminate = 0;  ///< passes without a better holdout loss

  /// Whether every example counts as one: mtr's weights fall with the number of actions, and so would the penalty rise.
  bool counts_as_one = false;

  /// From now on labels are costs, and predictions are losses: 0 for the cost `low`, 1 for `high`.
  /// \param initial the loss of what is unknown
  void show_losses(double low, double high, double initial);

  /// From now on, notes the variance of each prediction.
  void start_noting();
  /// \return the variances, in the order of the predictions
  const std::vector<double>& stop_noting();

  /// Whether the last example that was learnt had no weight that had been learnt before.
  bool learnt_unknown() const { return _model.learnt_unknown(); }

private:
  VW::workspace& _all;
  least_squares _model;
  bool _relative_to_mean;  ///< what is unknown is predicted to be the mean of the labels; else 0
  bool _times;
  bool _audits;
  explorer_state _state;

  bool _shows_losses = false;
  double _low = 0.;
  double _width = 1.;
  double _initial = 0.;  ///< cost of what is unknown
  bool _notes = false;
  std::vector<double> _noted;

  std::vector<feature> _features;
  bool _warned_of_feature = false;
  std::size_t _no_win_counter = 0;
  std::chrono::steady_clock::duration _learning{};

  double initial() const;
  void look_at(VW::example& ec);
  void show(VW::example& ec, double prediction) const;
  void audit(VW::example& ec);
  void copy_weights();
};

/// \return a flag that least squares does not work with, or an empty string
std::string refused_by_least_squares(const VW::config::options_i& options);
}  // namespace opo_cmab

namespace VW
{
namespace reductions
{
std::shared_ptr<VW::LEARNER::learner> least_squares_setup(VW::setup_base_i& stack_builder);
}  // namespace reductions
}  // namespace VW
