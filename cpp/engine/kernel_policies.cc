// The policy recursion for Python.
#include "engine/kernel_module.h"
#include "kernel/past_predictions.h"
#include "kernel/policy.h"
#include "kernel/policy_batch.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace py = pybind11;

namespace
{
using opo_cmab::make_settings;
using opo_cmab::matrix;
using integers = py::array_t<int64_t, py::array::c_style>;

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
    std::copy_n(policy.probabilities(), actions, out);
    for (std::size_t k = 0; k < rounds; ++k)
    {
      policy.step(losses + k * actions);
      std::copy_n(policy.probabilities(), actions, out + (k + 1) * actions);
    }
  }
  return result;
}

opo_cmab::segments make_segments(uint32_t budget)
{
  if (budget < 2) { throw std::invalid_argument("budget must be at least 2"); }
  return opo_cmab::segments(budget);
}

py::array_t<uint32_t> starts_of(const opo_cmab::segments& past)
{
  return py::array_t<uint32_t>(static_cast<py::ssize_t>(past.starts().size()), past.starts().data());
}

py::object append_round(opo_cmab::segments& past)
{
  const std::size_t merged = past.append();
  if (merged == opo_cmab::segments::NONE_MERGED) { return py::none(); }
  return py::int_(merged);
}

py::array_t<uint32_t> segment_starts(std::size_t rounds, uint32_t budget)
{
  auto past = make_segments(budget);
  for (std::size_t k = 0; k < rounds; ++k) { past.append(); }
  return starts_of(past);
}

/// The last policy of a replay.
void replay(const opo_cmab::policy_settings& settings, const opo_cmab::segments& past, const double* rows,
    std::size_t actions, double* result)
{
  opo_cmab::policy policy;
  opo_cmab::past_predictions predictions;
  policy.start(settings, actions);
  predictions.assign(past, rows, actions);
  policy.replay(predictions, {});
  std::copy_n(policy.probabilities(), actions, result);
}

matrix last_policy(const matrix& predictions, double eta, const py::object& gamma, const py::object& beta, double decay)
{
  check_shape(predictions);
  const auto settings = make_settings(eta, gamma, beta, decay);
  const auto actions = static_cast<std::size_t>(predictions.shape(1));
  matrix result(static_cast<py::ssize_t>(actions));
  const double* rows = predictions.data();
  double* out = result.mutable_data();
  opo_cmab::segments past;
  past.restore(static_cast<uint32_t>(predictions.shape(0)), {});
  {
    py::gil_scoped_release unlocked;
    replay(settings, past, rows, actions, out);
  }
  return result;
}

opo_cmab::segments restore_segments(const std::vector<uint32_t>& starts, uint32_t budget, py::ssize_t rows)
{
  auto past = make_segments(budget);
  if (starts.empty() || !past.restore(starts.back(), starts) || static_cast<std::size_t>(rows) != past.size())
  {
    throw std::invalid_argument(
        "starts must grow from 0 to the number of rounds, with at most budget segments between them, each with a row "
        "of averages");
  }
  return past;
}

matrix bounded_policy(const matrix& averages, const std::vector<uint32_t>& starts, uint32_t budget, double eta,
    const py::object& gamma, const py::object& beta, double decay)
{
  check_shape(averages);
  const auto settings = make_settings(eta, gamma, beta, decay);
  const auto past = restore_segments(starts, budget, averages.shape(0));
  const auto actions = static_cast<std::size_t>(averages.shape(1));
  matrix result(static_cast<py::ssize_t>(actions));
  replay(settings, past, averages.data(), actions, result.mutable_data());
  return result;
}

void check_rows(const matrix& predictions, const integers& rows)
{
  const auto in_predictions = [&](int64_t row) { return row >= 0 && row < predictions.shape(0); };
  if (!std::all_of(rows.data(), rows.data() + rows.size(), in_predictions))
  {
    throw std::invalid_argument("rows must be row numbers of predictions");
  }
}

/// The factors on the bonuses, one for each context, or none.
std::vector<double> checked_scales(std::vector<double> scales, std::size_t contexts)
{
  const bool good = std::all_of(scales.begin(), scales.end(), [](double s) { return s >= 0. && std::isfinite(s); });
  if (!good || (!scales.empty() && scales.size() != contexts))
  {
    throw std::invalid_argument("scales must be finite numbers from 0 up, one for each context");
  }
  return scales;
}

/// bounded_policy of many contexts.
matrix bounded_policies(const matrix& predictions, const integers& rows, const std::vector<uint32_t>& starts,
    uint32_t budget, double eta, const py::object& gamma, const py::object& beta, double decay,
    const std::vector<double>& scales)
{
  if (predictions.ndim() != 2 || rows.ndim() != 2 || rows.shape(1) == 0)
  {
    throw std::invalid_argument("rows must have a row for each segment and a column for each action");
  }
  check_rows(predictions, rows);
  const auto settings = make_settings(eta, gamma, beta, decay);
  const auto past = restore_segments(starts, budget, rows.shape(0));
  const auto contexts = static_cast<std::size_t>(predictions.shape(1));
  const auto actions = static_cast<std::size_t>(rows.shape(1));
  checked_scales(scales, contexts);
  matrix result({contexts, actions});
  const double* f = predictions.data();
  const int64_t* row = rows.data();
  double* out = result.mutable_data();
  {
    py::gil_scoped_release unlocked;
    opo_cmab::policy policy;
    opo_cmab::past_predictions of_context;
    std::vector<double> averages(past.size() * actions);
    for (std::size_t c = 0; c < contexts; ++c)
    {
      for (std::size_t i = 0; i < averages.size(); ++i)
      {
        averages[i] = f[static_cast<std::size_t>(row[i]) * contexts + c];
      }
      auto own = settings;
      own.gamma *= scales.empty() ? 1. : scales[c];
      own.beta *= scales.empty() ? 1. : scales[c];
      policy.start(own, actions);
      of_context.assign(past, averages.data(), actions);
      policy.replay(of_context, {});
      std::copy_n(policy.probabilities(), actions, out + c * actions);
    }
  }
  return result;
}

/// policy_batch, its input checked.
class checked_batch
{
public:
  checked_batch(std::size_t contexts, std::size_t actions, double eta, const py::object& gamma, const py::object& beta,
      double decay, std::vector<double> scales)
      : _contexts(contexts)
      , _actions(actions)
      , _batch(make_settings(eta, gamma, beta, decay), contexts, actions, checked_scales(std::move(scales), contexts))
  {
    if (actions == 0) { throw std::invalid_argument("actions must be at least 1"); }
  }

  void step(const matrix& predictions, const integers& rows, const integers& lengths)
  {
    const bool shaped = predictions.ndim() == 2 && rows.ndim() == 2 && lengths.ndim() == 1 &&
        rows.shape(0) == lengths.shape(0) && rows.shape(1) == static_cast<py::ssize_t>(_actions);
    if (!shaped)
    {
      throw std::invalid_argument("rows must have a row for each of lengths and a column for each action");
    }
    if (predictions.shape(1) % GROUP != 0 || predictions.shape(1) < static_cast<py::ssize_t>(_contexts))
    {
      throw std::invalid_argument("predictions must have a column for each context, padded to a multiple of GROUP");
    }
    check_rows(predictions, rows);
    if (!std::all_of(lengths.data(), lengths.data() + lengths.size(), [](int64_t length) { return length > 0; }))
    {
      throw std::invalid_argument("lengths must be at least 1");
    }
    opo_cmab::policy_batch::runs past;
    past.count = static_cast<std::size_t>(lengths.size());
    past.lengths = lengths.data();
    past.rows = rows.data();
    past.predictions = predictions.data();
    past.row_size = static_cast<std::size_t>(predictions.shape(1));
    py::gil_scoped_release unlocked;
    _batch.step(past);
  }

  matrix probabilities() const
  {
    matrix result({_contexts, _actions});
    _batch.probabilities(result.mutable_data());
    return result;
  }

  static constexpr auto GROUP = static_cast<py::ssize_t>(opo_cmab::policy_batch::GROUP);

private:
  std::size_t _contexts;
  std::size_t _actions;
  opo_cmab::policy_batch _batch;
};
}  // namespace

void opo_cmab::add_policies(py::module_& m)
{
  m.def("policies", &policies, py::arg("predictions"), py::kw_only(), py::arg("eta"), py::arg("gamma") = py::none(),
      py::arg("beta") = py::none(), py::arg("decay") = 1.,
      "pi_1 .. pi_{K+1}, step by step: a fast opo_cmab.reference.policies.");
  m.def("policy", &last_policy, py::arg("predictions"), py::kw_only(), py::arg("eta"), py::arg("gamma") = py::none(),
      py::arg("beta") = py::none(), py::arg("decay") = 1.,
      "pi_{K+1}, the last row of policies, computed as in the engine.");
  m.def("bounded_policy", &bounded_policy, py::arg("averages"), py::arg("starts"), py::kw_only(), py::arg("budget"),
      py::arg("eta"), py::arg("gamma") = py::none(), py::arg("beta") = py::none(), py::arg("decay") = 1.,
      "pi_{K+1} in at most budget steps, from the average predictions over each segment of the past.");
  m.def("bounded_policies", &bounded_policies, py::arg("predictions"), py::arg("rows"), py::arg("starts"),
      py::kw_only(), py::arg("budget"), py::arg("eta"), py::arg("gamma") = py::none(), py::arg("beta") = py::none(),
      py::arg("decay") = 1., py::arg("scales") = std::vector<double>(),
      "bounded_policy of many contexts: predictions has a column for each context; rows has, for each segment and "
      "action, the number of the row with its averages.");
  py::class_<opo_cmab::segments>(m, "Segments", "The past rounds, divided into at most budget segments.")
      .def(py::init(&make_segments), py::arg("budget"))
      .def("append", &append_round,
          "Adds a round. If two neighbouring segments had to merge, returns the number of the first, else None.")
      .def_property_readonly("starts", &starts_of, "The first round of each segment, and the number of rounds.")
      .def(py::pickle([](const opo_cmab::segments& past) { return py::make_tuple(past.budget(), past.starts()); },
          [](const py::tuple& state)
          {
            const auto starts = state[1].cast<std::vector<uint32_t>>();
            auto past = make_segments(state[0].cast<uint32_t>());
            if (starts.empty() || !past.restore(starts.back(), starts))
            {
              throw std::invalid_argument("the pickled segments are damaged");
            }
            return past;
          }));
  m.def("segment_starts", &segment_starts, py::arg("rounds"), py::kw_only(), py::arg("budget"),
      "The first round of each segment, and the number of rounds, for a budget.");
  py::class_<checked_batch>(m, "PolicyBatch", "The policies of many contexts at once, pi_1 first.")
      .def(py::init<std::size_t, std::size_t, double, const py::object&, const py::object&, double,
               std::vector<double>>(),
          py::arg("contexts"), py::arg("actions"), py::kw_only(), py::arg("eta"), py::arg("gamma") = py::none(),
          py::arg("beta") = py::none(), py::arg("decay") = 1., py::arg("scales") = std::vector<double>(),
          "scales: a factor on the bonuses of each context.")
      .def("step", &checked_batch::step, py::arg("predictions"), py::arg("rows"), py::arg("lengths"),
          "Steps through past rounds, in runs with the same predictors. lengths: the rounds in each run; rows: for "
          "each "
          "run and action the row of predictions, which has a column for each context.")
      .def("probabilities", &checked_batch::probabilities, "A row for each context, a column for each action.")
      .def_property_readonly_static(
          "GROUP", [](const py::object&) { return checked_batch::GROUP; },
          "Contexts computed side by side: predictions must have a multiple of this many columns.");
}
