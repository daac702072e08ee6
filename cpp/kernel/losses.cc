#include "kernel/losses.h"

#include "kernel/lanes.h"
#include "kernel/vectorized.h"

#include <algorithm>
#include <cmath>

namespace
{
using namespace opo_cmab;

/// The inverse of the sigmoid of a margin.
OPO_CMAB_INLINE lanes inverse_sigmoid(lanes margin)
{
  const lanes least = lanes{} + HIDDEN_LEAST_MARGIN;
  return 1. + exp_of(-min(max(margin, least), -least));
}

template <bool LOGISTIC>
OPO_CMAB_INLINE void map_piece(double* values, std::size_t size, const loss_map::piece& piece, const loss_map& map)
{
  // Copies, because the compiler must assume that storing a value changes the originals.
  const lanes zero = {};
  const lanes offset = zero + piece.offset;
  const lanes scale = zero + piece.scale;
  const lanes largest = zero + map.largest;
  const lanes largest_plausible = zero + map.largest_plausible;
  const lanes newcomer =
      zero + (std::isnan(map.newcomer) ? piece.offset + piece.scale * (LOGISTIC ? 0.5 : 0.) : map.newcomer);
  const auto set = [&](std::size_t i, lanes prediction, lanes score) __attribute__((always_inline))
  {
    const lanes loss = score == zero ? newcomer : offset + scale * prediction;
    store(values + i, loss > largest_plausible ? zero + UNKNOWN_LOSS : min(loss, largest));
  };
  std::size_t i = 0;
  if (LOGISTIC)
  {
    // Two at once, because one division takes as long as the rest.
    for (; i + 2 * LANES <= size; i += 2 * LANES)
    {
      const lanes first = load(values + i);
      const lanes second = load(values + i + LANES);
      const lanes a = inverse_sigmoid(first);
      const lanes b = inverse_sigmoid(second);
      const lanes inverse = 1. / (a * b);
      set(i, b * inverse, first);
      set(i + LANES, a * inverse, second);
    }
  }
  for (; i < size; i += LANES)
  {
    const lanes score = load(values + i);
    set(i, LOGISTIC ? 1. / inverse_sigmoid(score) : score, score);
  }
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
