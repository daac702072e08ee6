// The kernel for Python: opo_cmab._kernel.
#include "engine/kernel_module.h"

#include <cfloat>
#include <cmath>
#include <stdexcept>

namespace py = pybind11;

namespace opo_cmab
{
policy_settings make_settings(double eta, const py::object& gamma, const py::object& beta, double decay)
{
  if (gamma.is_none() == beta.is_none()) { throw std::invalid_argument("give one of gamma and beta"); }
  policy_settings settings;
  settings.eta = eta;
  settings.decay = decay;
  settings.gamma = gamma.is_none() ? 0. : gamma.cast<double>();
  settings.beta = beta.is_none() ? -1. : beta.cast<double>();
  const double bonus = beta.is_none() ? settings.gamma : settings.beta;
  if (!(eta >= 0.) || eta > FLT_MAX) { throw std::invalid_argument("eta must be at least 0 and finite, as a float"); }
  if (!(bonus >= 0.) || !std::isfinite(bonus))
  {
    throw std::invalid_argument("gamma and beta must be at least 0 and finite");
  }
  if (!(decay >= 0. && decay <= 1.)) { throw std::invalid_argument("decay must be in [0, 1]"); }
  return settings;
}
}  // namespace opo_cmab

PYBIND11_MODULE(_kernel, m)
{
  m.doc() = "The kernel of OPO-CMAB: the policy recursion and the weight history, as the engine uses them.";
  opo_cmab::add_policies(m);
  opo_cmab::add_history(m);
  opo_cmab::add_least_squares(m);
}
