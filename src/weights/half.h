#pragma once

#include <bit>
#include <cstdint>

namespace decant {

/// The value of an IEEE 754 binary16, exactly; a NaN stays a NaN with its payload. Without a branch
/// or a subnormal operand, so that loops over it vectorise and no floating-point mode changes it.
inline float FloatFromHalf(uint16_t half) {
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t sign = (half & 0x8000u) << 16;
  const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1.0p-24f;
  const uint32_t normal = (magnitude << 13) + kRebias;
  const uint32_t infinite_or_nan = normal + kRebias;
  uint32_t bits = magnitude < 0x0400u ? std::bit_cast<uint32_t>(subnormal) : normal;
  bits = magnitude < 0x7c00u ? bits : infinite_or_nan;
  return std::bit_cast<float>(bits | sign);
}

/// The value of a bfloat16: the upper half of a binary32.
inline float FloatFromBfloat16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

}  // namespace decant
