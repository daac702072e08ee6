// The weight history for Python.
#include "engine/kernel_module.h"
#include "kernel/past_predictions.h"
#include "kernel/policy.h"
#include "kernel/weight_history.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace py = pybind11;

namespace
{
using opo_cmab::make_settings;
using opo_cmab::matrix;
using weights_array = py::array_t<uint64_t, py::array::c_style>;
using floats = py::array_t<float, py::array::c_style>;

/// The weight_history of a linear model: what it would have predicted, round by round.
class history
{
public:
  explicit history(uint32_t budget) : _history(budget)
  {
    if (budget == 1) { throw std::invalid_argument("budget must be 0 (no limit) or at least 2"); }
  }

  void record(const weights_array& weights, const floats& before, const floats& after)
  {
    if (weights.size() != before.size() || weights.size() != after.size())
    {
      throw std::invalid_argument("weights, before and after must have the same length");
    }
    std::vector<opo_cmab::weight_history::change> changes;
    for (py::ssize_t i = 0; i < weights.size(); ++i)
    {
      changes.push_back({weights.data()[i], before.data()[i], after.data()[i]});
    }
    _history.record(changes);
  }
  void end_round() { _history.end_round(); }

  /// The past predictions for one example, or for the examples of several actions.
  matrix past_predictions(const weights_array& weights, const floats& values, const floats& now)
  {
    const std::size_t actions = predict(weights, values, now);
    const std::size_t size = _history.past().size();
    const std::size_t width = opo_cmab::up_to_lanes(actions);
    std::vector<double> losses(size * width);
    opo_cmab::loss_map as_they_are;
    as_they_are.largest = HUGE_VAL;
    _predictions.take(size, as_they_are, losses.data());
    matrix result({size, actions});
    for (std::size_t i = 0; i < size; ++i)
    {
      std::copy_n(&losses[i * width], actions, result.mutable_data() + i * actions);
    }
    if (weights.ndim() == 1) { return result.reshape({static_cast<py::ssize_t>(size)}); }
    return result;
  }

  matrix policy(const weights_array& weights, const floats& values, const floats& now, double eta,
      const py::object& gamma, const py::object& beta, double decay, const py::object& observer)
  {
    const auto settings = make_settings(eta, gamma, beta, decay);
    const std::size_t actions = predict(weights, values, now);
    opo_cmab::step_observer tell;
    if (!observer.is_none())
    {
      tell = [&](std::size_t first, std::size_t rounds, const double*, const double*, const double*)
      { observer(first, rounds); };
    }
    _policy.start(settings, actions);
    _policy.replay(_predictions, {}, tell);
    return matrix(static_cast<py::ssize_t>(actions), _policy.probabilities());
  }

  py::bytes serialize() const { return _history.serialize(); }
  bool deserialize(const std::string& bytes) { return _history.deserialize(bytes.data(), bytes.size()); }
  std::size_t entries() const { return _history.entries(); }
  std::size_t bytes() const { return _history.bytes(); }

private:
  opo_cmab::weight_history _history;
  opo_cmab::past_predictions _predictions;
  opo_cmab::policy _policy;

  /// \return the number of actions
  std::size_t predict(const weights_array& weights, const floats& values, const floats& now)
  {
    if (weights.size() != values.size() || weights.size() != now.size() || weights.ndim() < 1 || weights.ndim() > 2)
    {
      throw std::invalid_argument(
          "weights, values and now must have the same shape: one row, or a row for each action");
    }
    if (_history.past().size() == 0) { throw std::invalid_argument("no round has ended: call end_round first"); }
    const auto actions = static_cast<std::size_t>(weights.ndim() == 1 ? 1 : weights.shape(0));
    const auto features = static_cast<std::size_t>(weights.size()) / std::max<std::size_t>(1, actions);
    _predictions.start(_history, actions);
    for (std::size_t a = 0; a < actions; ++a)
    {
      for (std::size_t i = a * features; i < (a + 1) * features; ++i)
      {
        _predictions.add(weights.data()[i], values.data()[i], now.data()[i]);
      }
      _predictions.finish_action();
    }
    return actions;
  }
};
}  // namespace

void opo_cmab::add_history(py::module_& m)
{
  py::class_<history>(m, "WeightHistory", "The timelines of a linear model's weights.")
      .def(py::init<uint32_t>(), py::arg("budget") = 0)
      .def("record", &history::record, py::arg("weights"), py::arg("before"), py::arg("after"),
          "Records the weights that the current round has changed. A weight that is listed several times counts once.")
      .def("end_round", &history::end_round, "Ends the current round.")
      .def("past_predictions", &history::past_predictions, py::arg("weights"), py::arg("values"), py::arg("now"),
          "The predictions of all past models, or of their averages over each segment, for an example; for several "
          "actions if weights, values and now have a row for each.")
      .def("policy", &history::policy, py::arg("weights"), py::arg("values"), py::arg("now"), py::kw_only(),
          py::arg("eta"), py::arg("gamma") = py::none(), py::arg("beta") = py::none(), py::arg("decay") = 1.,
          py::arg("observer") = py::none(),
          "The policy that follows from the past predictions. The observer is called with the first round of each step "
          "and its number of rounds.")
      .def("serialize", &history::serialize, "The history as bytes.")
      .def("deserialize", &history::deserialize, py::arg("data"),
          "Restores a history from bytes; False if they are not one.")
      .def_property_readonly("entries", &history::entries, "The number of changes kept.")
      .def_property_readonly("bytes", &history::bytes, "The memory they take.");
}
