#pragma once

#include "kernel/width.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace opo_cmab
{
/// How past predictions become losses: offset + scale * prediction, or offset + scale * sigmoid(prediction). Each piece
/// of the past has its own offset and scale.
class loss_map
{
public:
  class piece
  {
  public:
    std::size_t end;  ///< the first segment after this piece; without a budget each round is a segment
    double offset;
    double scale;
  };

  bool logistic = false;
  double largest = LARGEST_LOSS;  ///< larger losses, and those that are not a number, count as this
  double largest_plausible = std::numeric_limits<double>::infinity();  ///< larger losses count as UNKNOWN_LOSS
  double newcomer = std::numeric_limits<double>::quiet_NaN();  ///< what a prediction of 0 counts as; NaN: as others
  std::vector<piece> pieces = {{SIZE_MAX, 0., 1.}};            ///< from oldest to newest
};

/// Turns predictions into losses.
/// \param values of each segment, of each action, `width` of them, a multiple of LANES
/// \param first the first segment
void to_losses(double* values, std::size_t segments, std::size_t width, std::size_t first, const loss_map& map);
}  // namespace opo_cmab
