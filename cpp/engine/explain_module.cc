// Access to the engine from Python that pylibvw lacks: opo_cmab._explain. It is in the same shared library as pylibvw,
// because both need the same VW.
#include "reductions/cb_explore_adf_opo_cmab.h"
#include "vw/common/random.h"
#include "vw/common/vw_exception.h"
#include "vw/config/options.h"
#include "vw/core/global_data.h"
#include "vw/core/io_buf.h"
#include "vw/core/learner.h"
#include "vw/core/scope_exit.h"
#include "vw/core/version.h"
#include "vw/core/vw.h"
#include "vw/io/io_adapter.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace
{
template <typename T>
py::array_t<T> array(const std::vector<T>& values)
{
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

VW::multi_ex unwrap(const py::list& examples)
{
  VW::multi_ex result;
  for (const auto& example : examples) { result.push_back(example.cast<VW::example*>()); }
  return result;
}

py::dict to_dict(const opo_cmab::explanation& steps)
{
  const auto rows = static_cast<py::ssize_t>(steps.rounds.size());
  const auto actions = static_cast<py::ssize_t>(steps.policies.size()) / (rows + 1);
  py::dict result;
  result["min_cost"] = steps.min_cost;
  result["max_cost"] = steps.max_cost;
  result["first_rounds"] = array(steps.first_rounds);
  result["rounds"] = array(steps.rounds);
  result["losses"] = array(steps.losses).reshape({rows, actions});
  result["bonuses"] = array(steps.bonuses).reshape({rows, actions});
  result["policies"] = array(steps.policies).reshape({rows + 1, actions});
  return result;
}

/// The numbers of a decision's actions, in increasing order, as explorers see them.
std::vector<uint32_t> actions_of(const VW::action_scores& decision)
{
  std::vector<uint32_t> result;
  for (const auto& action : decision) { result.push_back(action.action); }
  std::sort(result.begin(), result.end());
  return result;
}

/// Predicts as the next Workspace.predict will, and returns the steps of each slot, or None if it has no action left.
/// Restores the state: otherwise VW would append to the decisions of these examples, and sample differently next time.
py::list explain(VW::workspace& workspace, const py::list& examples, std::size_t most_steps)
{
  if (!workspace.options->was_supplied("opo_cmab"))
  {
    THROW("only decisions of --opo_cmab can be explained: add --opo_cmab");
  }
  auto unwrapped = unwrap(examples);
  if (unwrapped.empty()) { THROW("there is no context to explain: give the lines of a context and its actions"); }
  opo_cmab::explanations explained;
  explained.most_steps = most_steps;
  auto& prediction = unwrapped[0]->pred;
  auto slots = std::move(prediction.decision_scores);
  prediction.decision_scores.clear();
  prediction.a_s.clear();  // VW keeps the last decision there if there is nothing to decide
  {
    auto& random = *workspace.get_random_state();
    auto restore = VW::scope_exit(
        [&random, &prediction, &slots, state = random.get_current_state()]
        {
          random.set_random_state(state);
          std::swap(prediction.decision_scores, slots);
        });
    const opo_cmab::explaining scope(explained);
    VW::LEARNER::require_multiline(workspace.l)->predict(unwrapped);
  }
  if (!workspace.options->was_supplied("ccb_explore_adf")) { slots = {prediction.a_s}; }

  py::list result;
  auto next = explained.decisions.begin();
  for (const auto& slot : slots)
  {
    if (slot.empty() || next == explained.decisions.end()) { result.append(py::none()); }
    else
    {
      auto steps = to_dict(*next++);
      steps["actions"] = array(actions_of(slot));
      result.append(std::move(steps));
    }
  }
  return result;
}

void discard(VW::workspace& workspace, const py::list& examples)
{
  auto unwrapped = unwrap(examples);
  VW::finish_example(workspace, unwrapped);
}

VW::LEARNER::learner& find_regression(VW::workspace& workspace)
{
  auto* found = workspace.l->get_learner_by_name_prefix("cb_adf");
  if (found == nullptr) { THROW("this is not a model of --cb_explore_adf or --cb_adf: only these can be converted"); }
  return *found;
}

/// Copies what cb_adf and the reductions below it save, including the weights, from one workspace to another.
void copy_regression(VW::workspace& from, VW::workspace& to)
{
  auto bytes = std::make_shared<std::vector<char>>();
  VW::io_buf out;
  out.add_file(VW::io::create_vector_writer(bytes));
  find_regression(from).save_load(out, false, false);
  out.flush();
  VW::io_buf in;
  in.add_file(VW::io::create_buffer_view(bytes->data(), bytes->size()));
  to.runtime_state.model_file_ver = VW::VERSION;  // the version it was written with
  find_regression(to).save_load(in, true, false);
}
}  // namespace

PYBIND11_MODULE(_explain, m)
{
  m.doc() = "A look inside the engine: the steps behind a decision of --opo_cmab.";
  m.def("explain", &explain, py::arg("workspace"), py::arg("examples"), py::kw_only(),
      py::arg("most_steps") = opo_cmab::explanations().most_steps,
      "The steps that a prediction takes, for each slot; an error if one takes more than most_steps.");
  m.def("copy_regression", &copy_regression, py::arg("from_"), py::arg("to"),
      "Copies the weights, and everything else that cb_adf and its base save, to another workspace.");
  m.def("discard", &discard, py::arg("workspace"), py::arg("examples"),
      "Returns examples to VW. Unlike Workspace.finish_example, does not count them in the statistics.");
}
