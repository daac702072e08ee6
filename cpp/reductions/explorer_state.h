#pragma once

#include "vw/core/io_buf.h"
#include "vw/core/learner.h"

#include <cstdint>
#include <string>

namespace opo_cmab
{
constexpr uint32_t STATE_VERSION = 8;

/// An explorer's section of a model file. VW loads a cut or altered file without an error. So the section has its
/// length, a checksum of itself, and a checksum of everything after it: what the reductions below save, the weights
/// last. All of them are checked before any of it is used.
class explorer_state
{
public:
  /// \param flag the explorer's flag, at most 8 letters
  /// \param base nullptr: there is nothing below
  /// \param saved_version the format version of this section in the model being loaded; 0 if it has none: then the
  ///        explorer starts from scratch with the model's weights
  explorer_state(std::string flag, VW::LEARNER::learner* base, uint32_t saved_version)
      : _flag(std::move(flag))
      , _base(base)
      , _saved_version(saved_version)
  {
  }

  void save(VW::io_buf& io, const std::string& state) const;
  /// \return false if the model holds no state
  bool load(VW::io_buf& io, std::string& state) const;
  uint32_t saved_version() const { return _saved_version; }
  [[noreturn]] void throw_damaged(const std::string& what) const;

private:
  std::string _flag;
  VW::LEARNER::learner* _base;
  uint32_t _saved_version;

  std::string serialize_below() const;
};
}  // namespace opo_cmab
