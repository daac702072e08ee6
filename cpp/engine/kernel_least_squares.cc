// Least squares for Python.
#include "engine/kernel_module.h"
#include "kernel/least_squares.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace py = pybind11;

namespace
{
using weights_array = py::array_t<uint64_t, py::array::c_style>;
using floats = py::array_t<float, py::array::c_style>;

class regression
{
public:
  regression(uint32_t block, float penalty) : _model(block, penalty)
  {
    if (block < 1 || block > opo_cmab::least_squares::LARGEST_BLOCK)
    {
      throw std::invalid_argument("block must be from 1 to 1024");
    }
    if (!(penalty >= 0.f) || !std::isfinite(penalty))
    {
      throw std::invalid_argument("penalty must be at least 0 and finite");
    }
  }

  double predict(const weights_array& weights, const floats& values, double initial)
  {
    return _model.predict(features(weights, values), initial);
  }
  double variance(const weights_array& weights, const floats& values)
  {
    return _model.variance(features(weights, values));
  }
  double learn(const weights_array& weights, const floats& values, double label, double weight, double initial)
  {
    return _model.learn(features(weights, values), label, weight, initial);
  }
  double mean() const { return _model.mean(); }
  float penalty() const { return _model.penalty(); }
  bool in_blocks() const { return _model.in_blocks(); }
  std::size_t blocks() const { return _model.blocks(); }
  std::size_t bytes() const { return _model.bytes(); }
  py::bytes serialize() const { return _model.serialize(); }
  bool deserialize(const std::string& bytes) { return _model.deserialize(bytes.data(), bytes.size()); }

private:
  opo_cmab::least_squares _model;
  std::vector<opo_cmab::feature> _features;

  const std::vector<opo_cmab::feature>& features(const weights_array& weights, const floats& values)
  {
    if (weights.size() != values.size())
    {
      throw std::invalid_argument("weights and values must have the same length");
    }
    _features.clear();
    for (py::ssize_t i = 0; i < weights.size(); ++i) { _features.push_back({weights.data()[i], values.data()[i]}); }
    return _features;
  }
};
}  // namespace

void opo_cmab::add_least_squares(py::module_& m)
{
  py::class_<regression>(m, "LeastSquares", "Least squares in blocks, one example at a time.")
      .def(py::init<uint32_t, float>(), py::arg("block") = 32, py::arg("penalty") = 0.f)
      .def("predict", &regression::predict, py::arg("weights"), py::arg("values"), py::arg("initial"),
          "The predicted label of an example.")
      .def("variance", &regression::variance, py::arg("weights"), py::arg("values"),
          "The variance of that prediction, in units of that of the noise.")
      .def("learn", &regression::learn, py::arg("weights"), py::arg("values"), py::arg("label"), py::arg("weight") = 1.,
          py::arg("initial") = 0., "Learns a label; returns what was predicted.")
      .def("serialize", &regression::serialize, "The regression as bytes.")
      .def("deserialize", &regression::deserialize, py::arg("data"),
          "Restores a regression with these settings from bytes; False if they are not one.")
      .def_property_readonly("mean", &regression::mean, "The mean of the labels.")
      .def_property_readonly("penalty", &regression::penalty, "The penalty in use.")
      .def_property_readonly("in_blocks", &regression::in_blocks, "Whether the candidate in use has blocks.")
      .def_property_readonly("blocks", &regression::blocks, "The number of blocks.")
      .def_property_readonly("bytes", &regression::bytes, "The memory taken.");
}
