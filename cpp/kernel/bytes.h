#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

// Plain data as bytes, for model files: in the machine's byte order, as all of VW's.
namespace opo_cmab
{
template <typename T>
void append_bytes(std::string& bytes, const T& value)
{
  static_assert(std::is_trivially_copyable<T>::value, "only plain data has bytes to write");
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// The number of values, then the values.
template <typename T>
void append_bytes(std::string& bytes, const std::vector<T>& values)
{
  static_assert(std::is_trivially_copyable<T>::value, "only plain data has bytes to write");
  append_bytes(bytes, static_cast<uint64_t>(values.size()));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// Reads plain data from bytes that may be cut short.
class byte_reader
{
public:
  byte_reader(const char* bytes, std::size_t size) : _next(bytes), _left(size) {}

  template <typename T>
  bool read(T* values, std::size_t count)
  {
    if (_left / sizeof(T) < count) { return false; }
    if (count > 0) { std::memcpy(static_cast<void*>(values), _next, count * sizeof(T)); }
    _next += count * sizeof(T);
    _left -= count * sizeof(T);
    return true;
  }

  template <typename T>
  bool read(T& value)
  {
    return read(&value, 1);
  }

  template <typename T>
  bool read(std::vector<T>& values)
  {
    uint64_t count = 0;
    if (!read(count) || _left / sizeof(T) < count) { return false; }
    values.resize(count);
    return read(values.data(), count);
  }

  std::size_t left() const { return _left; }

private:
  const char* _next;
  std::size_t _left;
};
}  // namespace opo_cmab
