#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

namespace decant::testing {

/// Appends a number's bytes, little-endian and without padding.
template <typename T>
requires std::is_arithmetic_v<T>
void AppendBytes(std::vector<std::byte>& out, T value) {
  const size_t end = out.size();
  out.resize(end + sizeof(T));
  std::memcpy(out.data() + end, &value, sizeof(T));
}

/// Appends a text's characters, without its length.
inline void AppendBytes(std::vector<std::byte>& out, std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

/// The bytes of numbers and texts, one after the other: Pack(uint32_t{8}, uint64_t{2}, "ab").
template <typename... Values>
std::vector<std::byte> Pack(const Values&... values) {
  std::vector<std::byte> out;
  (AppendBytes(out, values), ...);
  return out;
}

}  // namespace decant::testing
