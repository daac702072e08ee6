#include "kernel/running_sums.h"

#include "kernel/lanes.h"
#include "kernel/vectorized.h"

namespace
{
using namespace opo_cmab;

/// \tparam GROUPS of LANES actions, at once: each is a chain of additions, which would wait for one another
template <std::size_t GROUPS>
OPO_CMAB_INLINE void sum_groups(
    const double* const* changes, std::size_t count, double* sums, double* values, std::size_t width)
{
  lanes sum[GROUPS];
  for (std::size_t g = 0; g < GROUPS; ++g) { sum[g] = load(sums + g * LANES); }
  std::size_t k = 0;
  for (; k + LANES <= count; k += LANES)
  {
    for (std::size_t g = 0; g < GROUPS; ++g)
    {
      const double* const* its = changes + g * LANES;
      lanes rows[LANES] = {load(its[0] + k), load(its[1] + k), load(its[2] + k), load(its[3] + k)};
      transpose(rows);
      for (std::size_t i = 0; i < LANES; ++i)
      {
        sum[g] += rows[i];
        store(values + (k + i) * width + g * LANES, sum[g]);
      }
    }
  }
  for (; k < count; ++k)
  {
    for (std::size_t g = 0; g < GROUPS; ++g)
    {
      const double* const* its = changes + g * LANES;
      sum[g] += lanes{its[0][k], its[1][k], its[2][k], its[3][k]};
      store(values + k * width + g * LANES, sum[g]);
    }
  }
  for (std::size_t g = 0; g < GROUPS; ++g) { store(sums + g * LANES, sum[g]); }
}
}  // namespace

namespace opo_cmab
{
OPO_CMAB_VECTORIZED
void running_sums(const double* const* changes, std::size_t groups, std::size_t count, double* sums, double* values,
    std::size_t width)
{
  if (groups == 2) { sum_groups<2>(changes, count, sums, values, width); }
  else { sum_groups<1>(changes, count, sums, values, width); }
}
}  // namespace opo_cmab
