#include "kernel/segment_finder.h"

namespace opo_cmab
{
void segment_finder::prepare()
{
  const auto& starts = _past->starts();
  const std::size_t size = _past->size();
  _inverse_lengths.resize(size);
  for (std::size_t s = 0; s < size; ++s) { _inverse_lengths[s] = 1. / _past->length(s); }

  const std::size_t buckets = bucket(_past->rounds() - 1) + 1;
  _first_of_bucket.resize(buckets);
  std::size_t segment = 0;
  for (std::size_t b = buckets; b-- > 0;)
  {
    uint32_t oldest = static_cast<uint32_t>(b);
    if (b >= 16)
    {
      const std::size_t shift = (b - 16) / 8 + 1;
      oldest = static_cast<uint32_t>(((8 + (b - 16) % 8 + 1) << shift) - 1);
    }
    const uint32_t round = oldest < _past->rounds() ? _past->rounds() - 1 - oldest : 0;
    while (starts[segment + 1] <= round) { ++segment; }
    _first_of_bucket[b] = static_cast<uint32_t>(segment);
  }
  _ready = true;
}
}  // namespace opo_cmab
