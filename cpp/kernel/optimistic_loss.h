#pragma once

#include "kernel/lanes.h"

#include <algorithm>

namespace opo_cmab
{
/// The optimistic loss clip(loss - b, 0, 1) with b = min(1, bonus)
template <typename Lanes>
OPO_CMAB_INLINE Lanes optimistic_loss(Lanes loss, Lanes bonus)
{
  const Lanes zero = Lanes{} + HIDDEN_ZERO;
  const Lanes one = Lanes{} + HIDDEN_ONE;
  return min(max(loss - min(bonus, one), zero), one);
}

inline double optimistic_loss(double loss, double bonus)
{
  return std::min(1., std::max(0., loss - std::min(bonus, 1.)));  // 0 for NaN, as above
}
}  // namespace opo_cmab
