// The kernel for Python: opo_cmab._kernel.
#include "kernel/policy.h"
#include "kernel/weight_history.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cmath>
#include <stdexcept>

namespace py = pybind11;

namespace
{
using matrix = py::array_t<double, py::array::c_style>;

opo_cmab::policy_settings make_settings(double eta, const py::object& gamma, const py::object& beta, double decay)
{
  if (gamma.is_none() == beta.is_none()) { throw std::invalid_argument("give one of gamma and beta"); }
  opo_cmab::policy_settings settings;
  settings.eta = eta;
  settings.decay = decay;
  settings.gamma = gamma.is_none() ? 0. : gamma.cast<double>();
  settings.beta = beta.is_none() ? -1. : beta.cast<double>();
  const double bonus = beta.is_none() ? settings.gamma : settings.beta;
  if (!(eta >= 0.) || !std::isfinite(eta)) { throw std::invalid_argument("eta must be at least 0 and finite"); }
  if (!(bonus >= 0.) || !std::isfinite(bonus))
  {
    throw std::invalid_argument("gamma and beta must be at least 0 and finite");
  }
  if (!(decay >= 0. && decay <= 1.)) { throw std::invalid_argument("decay must be in [0, 1]"); }
  return settings;
}

void check_shape(const matrix& predictions)
{
  if (predictions.ndim() != 2 || predictions.shape(1) == 0)
  {
    throw std::invalid_argument("predictions must have a row for each past round and a column for each action");
  }
}

matrix policies(const matrix& predictions, double eta, const py::object& gamma, const py::object& beta, double decay)
{
  check_shape(predictions);
  const auto settings = make_settings(eta, gamma, beta, decay);
  const auto rounds = static_cast<std::size_t>(predictions.shape(0));
  const auto actions = static_cast<std::size_t>(predictions.shape(1));
  matrix result({rounds + 1, actions});
  const double* losses = predictions.data();
  double* out = result.mutable_data();
  {
    py::gil_scoped_release unlocked;
    opo_cmab::policy policy;
    policy.start(settings, actions);
    std::copy_n(policy.probabilities().data(), actions, out);
    for (std::size_t k = 0; k < rounds; ++k)
    {
      policy.step(losses + k * actions);
      std::copy_n(policy.probabilities().data(), actions, out + (k + 1) * actions);
    }
  }
  return result;
}

matrix last_policy(const matrix& predictions, double eta, const py::object& gamma, const py::object& beta, double decay)
{
  check_shape(predictions);
  const auto settings = make_settings(eta, gamma, beta, decay);
  const auto rounds = static_cast<std::size_t>(predictions.shape(0));
  const auto actions = static_cast<std::size_t>(predictions.shape(1));
  matrix result(static_cast<py::ssize_t>(actions));
  const double* f = predictions.data();
  double* out = result.mutable_data();
  {
    py::gil_scoped_release unlocked;
    std::vector<double> changes(rounds * actions);
    for (std::size_t a = 0; a < actions; ++a)
    {
      double before = 0.;
      for (std::size_t k = 0; k < rounds; ++k)
      {
        changes[a * rounds + k] = f[k * actions + a] - before;
        before = f[k * actions + a];
      }
    }
    opo_cmab::policy policy;
    policy.start(settings, actions);
    policy.replay(changes.data(), rounds, {});
    std::copy_n(policy.probabilities().data(), actions, out);
  }
  return result;
}

/// weight_history as a linear model's: what it would have predicted, round by round.
class history
{
public:
  void record(uint64_t weight, uint32_t round, float before, float after)
  {
    _history.record(weight, round, before, after);
  }

  matrix past_predictions(const py::array_t<uint64_t, py::array::c_style>& weights,
      const py::array_t<float, py::array::c_style>& values, const py::array_t<float, py::array::c_style>& now,
      std::size_t rounds) const
  {
    if (weights.size() != values.size() || weights.size() != now.size())
    {
      throw std::invalid_argument("weights, values and now must be of one length");
    }
    if (rounds == 0) { throw std::invalid_argument("rounds must be at least 1"); }
    matrix result(static_cast<py::ssize_t>(rounds));
    double* changes = result.mutable_data();
    std::fill_n(changes, rounds, 0.);
    opo_cmab::weight_history::past_predictions past;
    past.start(_history, changes, rounds);
    for (py::ssize_t i = 0; i < weights.size(); ++i) { past.add(weights.data()[i], values.data()[i], now.data()[i]); }
    past.finish();
    for (std::size_t k = 1; k < rounds; ++k) { changes[k] += changes[k - 1]; }
    return result;
  }

  py::bytes serialize() const { return _history.serialize(); }
  bool deserialize(const std::string& bytes) { return _history.deserialize(bytes.data(), bytes.size()); }
  std::size_t entries() const { return _history.entries(); }

private:
  opo_cmab::weight_history _history;
};
}  // namespace

PYBIND11_MODULE(_kernel, m)
{
  m.doc() = "The kernel of OPO-CMAB: the policy recursion and the weight history, as the engine uses them.";
  m.def("policies", &policies, py::arg("predictions"), py::kw_only(), py::arg("eta"), py::arg("gamma") = py::none(),
      py::arg("beta") = py::none(), py::arg("decay") = 1.,
      "pi_1 .. pi_{K+1}, step by step; as opo_cmab.reference.policies, fast.");
  m.def("policy", &last_policy, py::arg("predictions"), py::kw_only(), py::arg("eta"), py::arg("gamma") = py::none(),
      py::arg("beta") = py::none(), py::arg("decay") = 1.,
      "pi_{K+1}, the last of policies, by the way that the engine takes.");
  py::class_<history>(m, "WeightHistory", "The timelines of a linear model's weights.")
      .def(py::init<>())
      .def("record", &history::record, py::arg("weight"), py::arg("round"), py::arg("before"), py::arg("after"),
          "A round (the first is 0) has changed a weight.")
      .def("past_predictions", &history::past_predictions, py::arg("weights"), py::arg("values"), py::arg("now"),
          py::arg("rounds"), "The predictions of the models before rounds 0 .. rounds - 1 for an example.")
      .def("serialize", &history::serialize, "The history as bytes.")
      .def("deserialize", &history::deserialize, py::arg("data"), "Back from bytes; False if they are not a history's.")
      .def_property_readonly("entries", &history::entries, "How many changes are kept.");
}
