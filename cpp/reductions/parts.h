#pragma once

#include "vw/core/setup_base.h"

#include <cstdint>

namespace opo_cmab
{
class cost_unit;
class least_squares_learner;
class shared_features;
class tap;

/// How our reductions find each other while a stack is set up. Each sets its own part. A reduction further up finds it
/// there after setting up its base, and may keep the pointer: its base lives as long as it does.
class parts
{
public:
  bool explorer_is_ours = false;
  uint32_t saved_state = 0;        ///< the format version of the explorer's state in the model being loaded; 0: none
  bool model_loaded = false;       ///< ours or one of VW's
  bool leaves_out_shared = false;  ///< whether the regression leaves out what it can of what actions share
  cost_unit* costs = nullptr;
  least_squares_learner* least_squares = nullptr;  ///< nullptr: another learner
  bool without_history = false;                    ///< the explorer needs no past predictions
  shared_features* shared = nullptr;
  opo_cmab::tap* tap = nullptr;

  /// Whether the model being loaded has learnt what all actions share: VW's own, and ours before format 6.
  bool loads_shared_weights() const { return model_loaded && saved_state < 6; }
};

/// Implemented by our stack builder.
class parts_owner
{
public:
  virtual ~parts_owner() = default;
  virtual opo_cmab::parts& get_parts() = 0;
};

inline parts& parts_of(VW::setup_base_i& stack_builder)
{
  return dynamic_cast<parts_owner&>(stack_builder).get_parts();
}
}  // namespace opo_cmab
