#pragma once

#include "kernel/settings.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

// The parts of the kernel's Python module.
namespace opo_cmab
{
using matrix = pybind11::array_t<double, pybind11::array::c_style>;

/// Checks the settings; a bad one becomes a ValueError in Python.
policy_settings make_settings(double eta, const pybind11::object& gamma, const pybind11::object& beta, double decay);

void add_policies(pybind11::module_& m);
void add_history(pybind11::module_& m);
void add_least_squares(pybind11::module_& m);
}  // namespace opo_cmab
