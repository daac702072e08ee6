#pragma once

#include "kernel/lanes.h"

#include <algorithm>

namespace opo_cmab
{
/// The optimistic loss clip(loss - b, 0, 1) with b = min(LARGEST_LOSS, bonus), for a loss of at most LARGEST_LOSS: a
/// larger bonus gives 0 too. Of WORST_LOSS it is 1.
template <typename Lanes>
OPO_CMAB_INLINE Lanes optimistic_loss(Lanes loss, Lanes bonus)
{
  const Lanes zero = Lanes{} + HIDDEN_ZERO;
  const Lanes one = Lanes{} + HIDDEN_ONE;
  return min(max(loss - bonus, zero), one);
}

inline double optimistic_loss(double loss, double bonus) { return std::min(1., std::max(0., loss - bonus)); }
}  // namespace opo_cmab
