#include "reductions/opo_tap.h"

#include "reductions/parts.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/example.h"
#include "vw/core/global_data.h"
#include "vw/core/learner.h"
#include "vw/core/memory.h"
#include "vw/core/reductions/gd.h"
#include "vw/core/setup_base.h"

/*
The eye of --opo_cmab at the bottom of the stack: a pass-through that records which weights each learn changes, and
turns the features of an example into the predictions that all past models would make for it.
*/

using namespace VW::config;
using namespace VW::LEARNER;

namespace opo_cmab
{
void tap::start_noting(std::size_t actions)
{
  look_up_layout();
  _noting = true;
  _noted = 0;
  _past.start(history, actions);
}

past_predictions& tap::stop_noting()
{
  _noting = false;
  if (_noted != _past.actions())
  {
    THROW("--opo_cmab: " << _noted << " examples were predicted for " << _past.actions()
                         << " actions. A reduction below it adds or drops examples: leave it out");
  }
  return _past;
}

void tap::look_up_layout()
{
  _mask = _all.weights.mask();
  _stride_shift = _all.weights.stride_shift();
}

/// We identify weights by number, not by their place in memory: with -t VW packs them more densely.
uint64_t tap::number_of(uint64_t index) const { return (index & _mask) >> _stride_shift; }

void tap::note_feature(tap& self, float x, uint64_t index)
{
  self._past.add(self.number_of(index), x, self._all.weights[index]);
}

void tap::note_weight(tap& self, float, uint64_t index)
{
  self._learnt.emplace_back(self.number_of(index), self._all.weights[index], 0.f);
}

void tap::predict(learner& base, VW::example& ec)
{
  base.predict(ec);
  if (!_noting) { return; }
  if (history.past().size() > 0 && _noted < _past.actions())  // stop_noting checks for more
  {
    VW::foreach_feature<tap, uint64_t, note_feature>(_all, ec, *this);
    _past.finish_action();
  }
  ++_noted;
}

template <void (*learn_or_update)(learner& base, VW::example& ec)>
void tap::learn(learner& base, VW::example& ec)
{
  look_up_layout();
  _learnt.clear();
  VW::foreach_feature<tap, uint64_t, note_weight>(_all, ec, *this);
  learn_or_update(base, ec);
  for (auto& change : _learnt) { change.after = _all.weights[change.weight << _stride_shift]; }
  history.record(_learnt);
}
}  // namespace opo_cmab

namespace
{
using opo_cmab::tap;

void base_learn(learner& base, VW::example& ec) { base.learn(ec); }
void base_update(learner& base, VW::example& ec) { base.update(ec); }

void predict(tap& data, learner& base, VW::example& ec) { data.predict(base, ec); }
void learn(tap& data, learner& base, VW::example& ec) { data.learn<base_learn>(base, ec); }
void update(tap& data, learner& base, VW::example& ec) { data.learn<base_update>(base, ec); }
}  // namespace

std::shared_ptr<learner> VW::reductions::opo_tap_setup(VW::setup_base_i& stack_builder)
{
  const options_i& options = *stack_builder.get_options();
  if (!options.was_supplied("opo_cmab") || opo_cmab::parts_of(stack_builder).without_history) { return nullptr; }
  const auto budget = options.get_typed_option<int32_t>("opo_budget").value();  // checked by the explorer

  auto base = require_singleline(stack_builder.setup_base_learner());
  auto data = VW::make_unique<tap>(*stack_builder.get_all_pointer(), static_cast<uint32_t>(budget));
  opo_cmab::parts_of(stack_builder).tap = data.get();
  return make_reduction_learner(std::move(data), base, learn, predict, stack_builder.get_setupfn_name(opo_tap_setup))
      .set_learn_returns_prediction(base->learn_returns_prediction)
      .set_update(update)
      .build();
}
