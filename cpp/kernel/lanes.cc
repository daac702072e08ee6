#include "kernel/lanes.h"

namespace opo_cmab
{
const float HIDDEN_ZERO = 0.f;
const float HIDDEN_ONE = 1.f;
const float HIDDEN_LARGEST_LOSS = LARGEST_LOSS;
const float HIDDEN_LEAST_EXPONENT = LEAST_EXPONENT;
}  // namespace opo_cmab
