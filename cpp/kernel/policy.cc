#include "kernel/policy.h"

#include <algorithm>
#include <cmath>

// The loops over actions are compiled for several instruction sets and the best is taken at run time. No instruction
// set may fuse a multiplication and an addition (-ffp-contract=off), so that all of them give the same result.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define OPO_CMAB_VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OPO_CMAB_VECTORIZED
#endif

namespace
{
constexpr double NEGLIGIBLE = -40.;  // exp(-40) = 4e-18

/// log_weights -= eta clip(losses - bonus, 0, 1), bonus = min(1, half_beta / (1 + N))
/// \return the largest of the new log_weights
OPO_CMAB_VECTORIZED
double improve(double* log_weights, const double* losses, const double* inverse_counts, double half_beta, double eta,
    std::size_t n)
{
  for (std::size_t a = 0; a < n; ++a)
  {
    const double bonus = std::min(1., half_beta * inverse_counts[a]);
    log_weights[a] -= eta * std::min(1., std::max(0., losses[a] - bonus));
  }
  double largest = log_weights[0];
  for (std::size_t a = 1; a < n; ++a) { largest = std::max(largest, log_weights[a]); }
  return largest;
}

double sigmoid(double margin) { return 1. / (1. + std::exp(-margin)); }
}  // namespace

namespace opo_cmab
{
double policy_settings::half_beta(std::size_t k, std::size_t actions) const
{
  return 0.5 * (beta >= 0. ? beta : gamma * std::sqrt(static_cast<double>(k) / static_cast<double>(actions)));
}

void policy::start(const policy_settings& settings, std::size_t actions)
{
  _settings = settings;
  _k = 1;
  _pi.assign(actions, 1. / static_cast<double>(actions));
  _log_weights.assign(actions, 0.);
  _counts.assign(actions, 1.);
  _inverse_counts.assign(actions, 1.);
}

void policy::step(const double* losses)
{
  const std::size_t n = actions();
  const double largest =
      improve(_log_weights.data(), losses, _inverse_counts.data(), _settings.half_beta(_k, n), _settings.eta, n);
  double total = 0.;
  for (std::size_t a = 0; a < n; ++a)
  {
    if (_pi[a] > 0.)
    {
      _counts[a] += _pi[a];
      _inverse_counts[a] = 1. / _counts[a];
    }
    _log_weights[a] -= largest;
    // One action is at 0, and is often the only one that is not negligible: then there is nothing to compute.
    const double w = _log_weights[a];
    _pi[a] = w == 0. ? 1. : w > NEGLIGIBLE ? std::exp(w) : 0.;
    total += _pi[a];
  }
  if (total != 1.)
  {
    for (auto& p : _pi) { p /= total; }
  }
  ++_k;
}

void policy::replay(double* changes, std::size_t rounds, const loss_map& map)
{
  const std::size_t n = actions();
  _predictions.assign(n, 0.);
  _losses.assign(n, map.logistic ? map.offset + map.scale * sigmoid(0.) : map.offset);
  for (std::size_t k = 0; k < rounds; ++k)
  {
    double* change = changes + k * n;
    for (std::size_t a = 0; a < n; ++a)
    {
      if (change[a] == 0.) { continue; }  // of most actions: a round changes the weights of one
      _predictions[a] += change[a];
      change[a] = 0.;
      _losses[a] = map.offset + map.scale * (map.logistic ? sigmoid(_predictions[a]) : _predictions[a]);
    }
    step(_losses.data());
  }
}
}  // namespace opo_cmab
