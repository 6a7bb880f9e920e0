#pragma once

#include <bit>
#include <cstdint>

namespace decant {

/// An IEEE 754 binary16.
struct F16 {
  uint16_t bits = 0;
};

/// Rounds to nearest, ties to even; what is too large becomes infinite, NaN stays NaN.
inline F16 ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return F16{static_cast<uint16_t>(sign | 0x7e00U)};
  if (magnitude >= 0x477ff000U) return F16{static_cast<uint16_t>(sign | 0x7c00U)};
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the grid is 2^-24: adding 0.5 makes the float's own rounding do it.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return F16{static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U))};
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23);
  return F16{static_cast<uint16_t>(sign | (rounded >> 13))};
}

/// Exact.
inline float ToFloat(F16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  const uint32_t magnitude = value.bits & 0x7fffU;
  uint32_t bits = (magnitude << 13) + (112U << 23);
  if (magnitude >= 0x7c00U) bits += 112U << 23;
  if (magnitude < 0x0400U) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  }
  return std::bit_cast<float>(bits | sign);
}

}  // namespace decant
