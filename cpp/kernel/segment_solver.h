#pragma once

#include "kernel/recursion.h"
#include "kernel/settings.h"
#include "kernel/width.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// What steps through segments of h rounds have in common. A loss that is the same in all of them counts S times, and
/// the last rounds count most: S and m are the sum and the mean of the weights decay^(h-1), .., decay, 1, m counted
/// from 0.
template <typename Real>
class length_factors
{
public:
  Real rounds;  ///< h
  Real mean;    ///< m
  Real left;    ///< decay^h; 0 where it changes nothing
  Real eta;     ///< eta S
  Real inverse_eta;
  Real before;  ///< m / h: the part of the plays that counts for the bonus
  Real inverse_mean;
};

/// A segment to be stepped through.
template <typename Real>
class segment_factors : public length_factors<Real>
{
public:
  std::size_t first;  ///< k, counted from 1
  double root;        ///< sqrt(k + m)
  Real half_beta;     ///< beta_{k + m} / 2
};

/// Steps through segments of more than one round (segment_step.h), with numbers of type Real. Floats are fast, and
/// exact enough where eta S is not large: a log-weight has an error of 1e-7 eta S.
template <typename Real>
class segment_solver
{
public:
  void start(const policy_settings& settings, std::size_t actions);

  /// \param losses by segment and action, padded as the recursion
  /// \param k the first round of the first segment, counted from 1
  void step(recursion& all, const double* losses, std::size_t k, const uint32_t* lengths, std::size_t count);

  /// The bonus b(a) in the last segment.
  void bonuses(const recursion& all, double* result) const;

private:
  static constexpr std::size_t WIDTH = 32 / sizeof(Real);  ///< of a vector

  policy_settings _settings;
  std::size_t _actions = 0;
  std::vector<length_factors<Real>> _by_length;  ///< those used last, each in the place that its length says
  std::vector<segment_factors<Real>> _factors;   ///< by segment; most stay the same from context to context
  std::size_t _last = 0;                         ///< segment
  std::vector<Real> _losses;                     ///< by segment and action, padded
  std::vector<char> _memory;                     ///< for solving

  const length_factors<Real>& of_length(uint32_t rounds);
};

extern template class segment_solver<float>;
extern template class segment_solver<double>;
}  // namespace opo_cmab
