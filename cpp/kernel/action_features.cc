#include "kernel/action_features.h"

#include <algorithm>

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
  const auto in_all = [this](std::size_t i)
  {
    return std::all_of(
        _ends.begin(), _ends.end() - 1, [this, i](std::size_t end) { return _features[end + i] == _features[i]; });
  };
  _is_common.assign(shortest, 0);
  for (std::size_t i = 0; i < shortest; ++i)
  {
    if (!in_all(i)) { continue; }
    _is_common[i] = 1;
    _common.push_back(_features[i]);
  }
  if (_common.size() < WORTHWHILE)
  {
    _common.clear();
    return;
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
