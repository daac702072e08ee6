#include "kernel/action_features.h"

#include <algorithm>
#include <numeric>

namespace opo_cmab
{
void action_features::clear()
{
  _features.clear();
  _ends.clear();
  _common.clear();
}

void action_features::take_out_common()
{
  constexpr std::size_t WORTHWHILE = 4;
  if (actions() < 2) { return; }
  std::size_t shortest = size(0);
  for (std::size_t a = 1; a < actions(); ++a) { shortest = std::min(shortest, size(a)); }
  auto& places = _common_places;
  places.resize(shortest);
  std::iota(places.begin(), places.end(), std::size_t{0});
  for (std::size_t a = 1; a < actions(); ++a)
  {
    const auto differs = [this, own = of_action(a)](std::size_t i) { return !(own[i] == _features[i]); };
    places.erase(std::remove_if(places.begin(), places.end(), differs), places.end());
    if (places.size() < WORTHWHILE) { return; }
  }
  _is_common.assign(shortest, 0);
  for (const auto i : places)
  {
    _is_common[i] = 1;
    _common.push_back(_features[i]);
  }
  std::size_t kept = 0;
  std::size_t begin = 0;
  for (auto& end : _ends)
  {
    for (std::size_t i = begin; i < end; ++i)
    {
      if (i - begin >= shortest || _is_common[i - begin] == 0) { _features[kept++] = _features[i]; }
    }
    begin = end;
    end = kept;
  }
  _features.erase(_features.begin() + static_cast<std::ptrdiff_t>(kept), _features.end());
}
}  // namespace opo_cmab
