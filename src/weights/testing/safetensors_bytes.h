#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "weights/testing/pack.h"

namespace decant::testing {

/// A safetensors file with this header, right or wrong, and `data_bytes` of data that count up.
/// `stated_length` stands in the length's place where it is given.
inline std::vector<std::byte> SafetensorsBytes(std::string_view header, size_t data_bytes,
                                               std::optional<uint64_t> stated_length = {}) {
  std::vector<std::byte> bytes;
  AppendBytes(bytes, stated_length.value_or(header.size()));
  AppendBytes(bytes, header);
  for (size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<std::byte>(i & 0x3f));
  return bytes;
}

}  // namespace decant::testing
