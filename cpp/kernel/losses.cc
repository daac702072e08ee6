#include "kernel/losses.h"

#include "kernel/lanes.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cstdint>

namespace
{
using namespace opo_cmab;

/// sigmoid(margin)
OPO_CMAB_INLINE lanes sigmoid(lanes margin)
{
  const lanes zero = {};
  const lanes e = exp_of_negative(max(margin > 0. ? -margin : margin, zero + NEGLIGIBLE));
  return (margin > 0. ? zero + 1. : e) / (1. + e);
}

template <bool LOGISTIC>
OPO_CMAB_INLINE lanes to_loss(lanes prediction, const loss_map::piece& piece)
{
  return piece.offset + piece.scale * (LOGISTIC ? sigmoid(prediction) : prediction);
}

template <bool LOGISTIC>
OPO_CMAB_INLINE void map_values(double* values, std::size_t size, const loss_map::piece& piece)
{
  std::size_t i = 0;
  for (; i + LANES <= size; i += LANES) { store(values + i, to_loss<LOGISTIC>(load(values + i), piece)); }
  if (i == size) { return; }
  double rest[LANES] = {};
  std::copy_n(values + i, size - i, rest);
  store(rest, to_loss<LOGISTIC>(load(rest), piece));
  std::copy_n(rest, size - i, values + i);
}

/// The same for logistic loss. A round often changes the predictions for one action only, so those for others repeat:
/// each that is new is computed once.
OPO_CMAB_INLINE void map_margins(double* values, std::size_t size, const loss_map::piece& piece)
{
  constexpr std::size_t MOST = 256;
  double distinct[MOST + 1];
  uint16_t which[MOST];
  for (std::size_t first = 0; first < size; first += MOST)
  {
    double* some = values + first;
    const std::size_t n = std::min(MOST, size - first);
    std::size_t last = 0;
    distinct[0] = some[0];
    which[0] = 0;
    for (std::size_t i = 1; i < n; ++i)
    {
      last += some[i] != some[i - 1] ? 1 : 0;
      distinct[last] = some[i];
      which[i] = static_cast<uint16_t>(last);
    }
    map_values<true>(distinct, last + 1, piece);
    for (std::size_t i = 0; i < n; ++i) { some[i] = distinct[which[i]]; }
  }
}
}  // namespace

namespace opo_cmab
{
OPO_CMAB_VECTORIZED
void to_losses(double* values, std::size_t size, std::size_t first, const loss_map& map)
{
  const auto* piece = map.pieces.data();
  for (std::size_t i = 0; i < size;)
  {
    while (piece->end <= first + i) { ++piece; }
    const std::size_t end = std::min(size, piece->end - first);
    if (map.logistic) { map_margins(values + i, end - i, *piece); }
    else { map_values<false>(values + i, end - i, *piece); }
    i = end;
  }
}
}  // namespace opo_cmab
