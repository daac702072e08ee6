#include "kernel/losses.h"

#include "kernel/lanes.h"
#include "kernel/vectorized.h"

#include <algorithm>

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
OPO_CMAB_INLINE lanes to_loss(lanes prediction, const loss_map::piece& piece, const loss_map& map)
{
  const lanes zero = {};
  const lanes loss = piece.offset + piece.scale * (LOGISTIC ? sigmoid(prediction) : prediction);
  return loss > map.largest_plausible ? zero + UNKNOWN_LOSS : min(loss, zero + map.largest);
}

template <bool LOGISTIC>
OPO_CMAB_INLINE void map_piece(double* values, std::size_t size, const loss_map::piece& piece, const loss_map& map)
{
  for (std::size_t i = 0; i < size; i += LANES) { store(values + i, to_loss<LOGISTIC>(load(values + i), piece, map)); }
}
}  // namespace

namespace opo_cmab
{
OPO_CMAB_VECTORIZED
void to_losses(double* values, std::size_t segments, std::size_t width, std::size_t first, const loss_map& map)
{
  const auto* piece = map.pieces.data();
  for (std::size_t i = 0; i < segments;)
  {
    while (piece->end <= first + i) { ++piece; }
    const std::size_t end = std::min(segments, piece->end - first);
    double* its_values = values + i * width;
    const std::size_t size = (end - i) * width;
    if (map.logistic) { map_piece<true>(its_values, size, *piece, map); }
    else { map_piece<false>(its_values, size, *piece, map); }
    i = end;
  }
}
}  // namespace opo_cmab
