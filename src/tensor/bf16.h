#pragma once

#include <bit>
#include <cstdint>

namespace decant {

/// A bfloat16: the upper half of an IEEE float32.
struct Bf16 {
  uint16_t bits = 0;
};

/// Rounds to nearest, ties to even; NaN stays NaN.
inline Bf16 ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40U)};
  }
  return Bf16{static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

inline float ToFloat(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

/// Bits of the NaN that poisons memory which must not be read.
inline constexpr Bf16 kPoisonBf16{0x7fff};

}  // namespace decant
