// What Python needs of the engine beyond pylibvw: opo_cmab._explain. In the file of pylibvw, because it needs the same
// VW.
#include "reductions/cb_explore_adf_opo_cmab.h"
#include "vw/common/vw_exception.h"
#include "vw/core/global_data.h"
#include "vw/core/io_buf.h"
#include "vw/core/learner.h"
#include "vw/core/scope_exit.h"
#include "vw/core/version.h"
#include "vw/core/vw.h"
#include "vw/io/io_adapter.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

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

/// Predicts as Workspace.predict does, and returns the steps.
py::dict explain(VW::workspace& workspace, const py::list& examples)
{
  auto unwrapped = unwrap(examples);
  opo_cmab::explanation steps;
  opo_cmab::explain_into(workspace, &steps);
  {
    auto stop = VW::scope_exit([&workspace] { opo_cmab::explain_into(workspace, nullptr); });
    VW::LEARNER::require_multiline(workspace.l)->predict(unwrapped);
  }
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

void discard(VW::workspace& workspace, const py::list& examples)
{
  auto unwrapped = unwrap(examples);
  VW::finish_example(workspace, unwrapped);
}
VW::LEARNER::learner& find_regression(VW::workspace& workspace)
{
  auto* found = workspace.l->get_learner_by_name_prefix("cb_adf");
  if (found == nullptr) { THROW("this is not a model of --cb_explore_adf or --cb_adf"); }
  return *found;
}

/// What cb_adf and the reductions below it save, the weights included, goes from one workspace to the other.
void copy_regression(VW::workspace& from, VW::workspace& to)
{
  auto bytes = std::make_shared<std::vector<char>>();
  VW::io_buf out;
  out.add_file(VW::io::create_vector_writer(bytes));
  find_regression(from).save_load(out, false, false);
  out.flush();
  VW::io_buf in;
  in.add_file(VW::io::create_buffer_view(bytes->data(), bytes->size()));
  to.runtime_state.model_file_ver = VW::VERSION;  // that it is written in
  find_regression(to).save_load(in, true, false);
}
}  // namespace

PYBIND11_MODULE(_explain, m)
{
  m.doc() = "A look inside the engine: the steps behind a decision of --opo_cmab.";
  m.def("explain", &explain, py::arg("workspace"), py::arg("examples"), "The steps that a prediction takes.");
  m.def("copy_regression", &copy_regression, py::arg("from_"), py::arg("to"),
      "Gives a workspace the weights of another, and what else cb_adf and its base keep.");
  m.def("discard", &discard, py::arg("workspace"), py::arg("examples"),
      "Gives examples back without counting them in the workspace's statistics, as Workspace.finish_example does.");
}
