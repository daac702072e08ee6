#include "reductions/explorer_state.h"

#include "vw/common/hash.h"
#include "vw/common/vw_exception.h"
#include "vw/io/io_adapter.h"

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace
{
// io_buf adds the size to a pointer before it checks how much data there is: an impossible size would overflow.
constexpr uint64_t LARGEST_SIZE = uint64_t{1} << 46;

uint64_t checksum(const void* bytes, size_t size) { return VW::uniform_hash(static_cast<const char*>(bytes), size, 0); }

/// The start of a section; the state follows.
class section_header
{
public:
  std::array<char, 8> flag;
  uint32_t version;
  uint32_t unused;
  uint64_t state_size;
  uint64_t state_checksum;
  uint64_t below_size;
  uint64_t below_checksum;
  uint64_t own_checksum;

  uint64_t compute_own_checksum() const { return checksum(this, offsetof(section_header, own_checksum)); }
};

std::array<char, 8> padded(const std::string& flag)
{
  std::array<char, 8> result = {};
  flag.copy(result.data(), result.size());
  return result;
}
}  // namespace

namespace opo_cmab
{
std::string explorer_state::serialize_below() const
{
  if (_base == nullptr) { return {}; }
  auto bytes = std::make_shared<std::vector<char>>();
  VW::io_buf io;
  io.add_file(VW::io::create_vector_writer(bytes));
  _base->save_load(io, false, false);
  io.flush();
  return {bytes->begin(), bytes->end()};
}

void explorer_state::save(VW::io_buf& io, const std::string& state) const
{
  const auto below = serialize_below();
  section_header header{padded(_flag), STATE_VERSION, 0, state.size(), checksum(state.data(), state.size()),
      below.size(), checksum(below.data(), below.size()), 0};
  header.own_checksum = header.compute_own_checksum();
  io.bin_write_fixed(reinterpret_cast<const char*>(&header), sizeof(header));
  io.bin_write_fixed(state.data(), state.size());
}

bool explorer_state::load(VW::io_buf& io, std::string& state) const
{
  if (_saved_version == 0) { return false; }

  section_header header{};
  if (io.bin_read_fixed(reinterpret_cast<char*>(&header), sizeof(header)) != sizeof(header) ||
      header.flag != padded(_flag))
  {
    throw_damaged("the state is missing");
  }
  if (header.version != _saved_version)
  {
    THROW("section " << _flag << " of the model has format version " << header.version
                     << ", and this program reads versions 3 to " << STATE_VERSION
                     << ": load it with the version that saved it");
  }
  if (header.own_checksum != header.compute_own_checksum()) { throw_damaged("the state does not match its checksum"); }
  if (header.state_size > LARGEST_SIZE || header.below_size > LARGEST_SIZE)
  {
    throw_damaged("the state claims an impossible size");
  }

  char* bytes = nullptr;
  auto size = io.buf_read(bytes, header.state_size);
  if (size != header.state_size || checksum(bytes, size) != header.state_checksum)
  {
    throw_damaged("the state does not match its checksum");
  }
  state.assign(bytes, size);

  // Check the rest of the file, then let the reductions below read it.
  size = io.buf_read(bytes, header.below_size + 1);
  if (size != header.below_size || checksum(bytes, size) != header.below_checksum)
  {
    throw_damaged("the weights do not match their checksum");
  }
  io.set(bytes);
  return true;
}

void explorer_state::throw_damaged(const std::string& what) const
{
  THROW("the model file is damaged or cut short, in or after its section "
      << _flag << ": " << what << ". Use an intact copy, or train a new model");
}
}  // namespace opo_cmab
