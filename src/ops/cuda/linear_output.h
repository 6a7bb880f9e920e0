#pragma once

#include <cstdint>

namespace decant {

/// What a product of cuBLASLt is written as.
enum class LinearOutput : uint8_t {
  kElement,  ///< in the weights' type
  kFloat,    ///< in fp32
  kAdd,      ///< added to fp32
};

}  // namespace decant
