#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weights/ggml_type.h"

namespace decant::testing {

/// The binary16 nearest to `value` (ties to even); infinity where it is out of range.
uint16_t HalfFromFloat(float value);

/// `values` in blocks of `type`, rounded to nearest: F32, F16, BF16, Q8_0 or Q4_1. Aborts on other
/// types and where the values are no whole number of blocks.
std::vector<std::byte> Quantize(GgmlType type, std::span<const float> values);

}  // namespace decant::testing
