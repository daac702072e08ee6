#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opo_cmab
{
/// What past predictions mean: the loss is offset + scale * prediction, or offset + scale * sigmoid(prediction). The
/// offset and the scale may change from one stretch of the past to the next.
class loss_map
{
public:
  class piece
  {
  public:
    std::size_t end;  ///< the first segment that it does not hold for; without a budget each round is a segment
    double offset;
    double scale;
  };

  bool logistic = false;
  std::vector<piece> pieces = {{SIZE_MAX, 0., 1.}};  ///< in the order of the past, the last to its end
};

/// Turns the predictions of one action into losses.
/// \param first the segment of the first
void to_losses(double* values, std::size_t size, std::size_t first, const loss_map& map);
}  // namespace opo_cmab
