#pragma once

#include <cstdlib>
#include <string_view>

namespace decant {

/// Whether tests on a device should be small: DECANT_CUDA_TESTS=small, for compute-sanitizer, under
/// which a kernel takes a hundred times as long and more.
inline bool SmallTests() {
  const char* value = std::getenv("DECANT_CUDA_TESTS");
  return value != nullptr && std::string_view(value) == "small";
}

}  // namespace decant
