#include "weights/testing/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "weights/testing/pack.h"

namespace decant::testing {
namespace {

uint16_t Bfloat16FromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The quantised integer nearest to value / scale, within [low, high].
int Level(float value, float scale, int low, int high) {
  if (scale == 0.0f) return 0;
  return std::clamp(static_cast<int>(std::lround(value / scale)), low, high);
}

void AppendQ8Block(std::span<const float> block, std::vector<std::byte>& out) {
  float largest = 0.0f;
  for (const float value : block) largest = std::max(largest, std::fabs(value));
  const float d = largest / 127.0f;
  AppendBytes(out, HalfFromFloat(d));
  for (const float value : block) AppendBytes(out, static_cast<int8_t>(Level(value, d, -127, 127)));
}

void AppendQ4Block(std::span<const float> block, std::vector<std::byte>& out) {
  const auto [low, high] = std::ranges::minmax(block);
  const float d = (high - low) / 15.0f;
  AppendBytes(out, HalfFromFloat(d));
  AppendBytes(out, HalfFromFloat(low));
  for (size_t i = 0; i < 16; ++i) {
    const int first = Level(block[i] - low, d, 0, 15);
    const int second = Level(block[16 + i] - low, d, 0, 15);
    AppendBytes(out, static_cast<uint8_t>(first | (second << 4)));
  }
}

}  // namespace

uint16_t HalfFromFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  constexpr uint32_t kRoundsToInfinity = 0x477ff000;  // 65520
  if (magnitude >= kRoundsToInfinity) return static_cast<uint16_t>(sign | 0x7c00u);
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  if (magnitude < kSmallestNormal) {
    // Numbers from 0.5 are 2^-24 apart, as subnormal halves are: the addition rounds as needed.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - ((127u - 15u) << 23)) >> 13));
}

std::vector<std::byte> Quantize(GgmlType type, std::span<const float> values) {
  std::vector<std::byte> out;
  const auto block = static_cast<size_t>(TraitsOf(type).block_elements);
  DECANT_CHECK(values.size() % block == 0, "{} values are not whole {} blocks", values.size(),
               GgmlTypeName(type));
  for (size_t i = 0; i < values.size(); i += block) {
    switch (type) {
      case GgmlType::kF32:
        AppendBytes(out, values[i]);
        break;
      case GgmlType::kF16:
        AppendBytes(out, HalfFromFloat(values[i]));
        break;
      case GgmlType::kBf16:
        AppendBytes(out, Bfloat16FromFloat(values[i]));
        break;
      case GgmlType::kQ8_0:
        AppendQ8Block(values.subspan(i, block), out);
        break;
      case GgmlType::kQ4_1:
        AppendQ4Block(values.subspan(i, block), out);
        break;
      default:
        DECANT_CHECK(false, "there is no quantiser for {}", GgmlTypeName(type));
    }
  }
  return out;
}

}  // namespace decant::testing
