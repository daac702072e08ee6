#include "kernel/lanes.h"

namespace opo_cmab
{
const float HIDDEN_ZERO = 0.f;
const float HIDDEN_ONE = 1.f;
const float HIDDEN_LEAST_EXPONENT = LEAST_EXPONENT;
const float HIDDEN_LEAST_LOG_SHARE = LEAST_LOG_SHARE;
const float HIDDEN_LEAST_MARGIN = NEGLIGIBLE;
}  // namespace opo_cmab
