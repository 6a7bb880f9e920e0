#include "weights/ggml_type.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace decant {
namespace {

// Ordered by number. Source: ggml's type table, as published in the PyPI package gguf
// (gguf.constants.GGML_QUANT_SIZES).
constexpr auto kTraits = std::to_array<GgmlTypeTraits>({
    {GgmlType::kF32, "F32", 1, 4},
    {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kQ4_0, "Q4_0", 32, 18},
    {GgmlType::kQ4_1, "Q4_1", 32, 20},
    {GgmlType::kQ5_0, "Q5_0", 32, 22},
    {GgmlType::kQ5_1, "Q5_1", 32, 24},
    {GgmlType::kQ8_0, "Q8_0", 32, 34},
    {GgmlType::kQ8_1, "Q8_1", 32, 40},
    {GgmlType::kQ2_K, "Q2_K", 256, 84},
    {GgmlType::kQ3_K, "Q3_K", 256, 110},
    {GgmlType::kQ4_K, "Q4_K", 256, 144},
    {GgmlType::kQ5_K, "Q5_K", 256, 176},
    {GgmlType::kQ6_K, "Q6_K", 256, 210},
    {GgmlType::kQ8_K, "Q8_K", 256, 292},
    {GgmlType::kIq2Xxs, "IQ2_XXS", 256, 66},
    {GgmlType::kIq2Xs, "IQ2_XS", 256, 74},
    {GgmlType::kIq3Xxs, "IQ3_XXS", 256, 98},
    {GgmlType::kIq1S, "IQ1_S", 256, 50},
    {GgmlType::kIq4Nl, "IQ4_NL", 32, 18},
    {GgmlType::kIq3S, "IQ3_S", 256, 110},
    {GgmlType::kIq2S, "IQ2_S", 256, 82},
    {GgmlType::kIq4Xs, "IQ4_XS", 256, 136},
    {GgmlType::kI8, "I8", 1, 1},
    {GgmlType::kI16, "I16", 1, 2},
    {GgmlType::kI32, "I32", 1, 4},
    {GgmlType::kI64, "I64", 1, 8},
    {GgmlType::kF64, "F64", 1, 8},
    {GgmlType::kIq1M, "IQ1_M", 256, 56},
    {GgmlType::kBf16, "BF16", 1, 2},
    {GgmlType::kTq1_0, "TQ1_0", 256, 54},
    {GgmlType::kTq2_0, "TQ2_0", 256, 66},
    {GgmlType::kMxfp4, "MXFP4", 32, 17},
});

const GgmlTypeTraits* FindTraits(uint32_t number) {
  const auto* found = std::ranges::lower_bound(
      kTraits, number, {},
      [](const GgmlTypeTraits& traits) { return static_cast<uint32_t>(traits.type); });
  if (found == kTraits.end() || static_cast<uint32_t>(found->type) != number) return nullptr;
  return found;
}

}  // namespace

std::optional<GgmlType> GgmlTypeFromNumber(uint32_t number) {
  const GgmlTypeTraits* traits = FindTraits(number);
  if (traits == nullptr) return std::nullopt;
  return traits->type;
}

const GgmlTypeTraits& TraitsOf(GgmlType type) {
  const GgmlTypeTraits* traits = FindTraits(static_cast<uint32_t>(type));
  DECANT_CHECK(traits != nullptr, "{} is not a GgmlType", static_cast<uint32_t>(type));
  return *traits;
}

Expected<int64_t> EncodedBytes(GgmlType type, int64_t elements) {
  const GgmlTypeTraits& traits = TraitsOf(type);
  if (elements <= 0 || elements % traits.block_elements != 0) {
    return InvalidArgument("{} elements are not a whole number of {} blocks of {}", elements,
                           traits.name, traits.block_elements);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / traits.block_elements, traits.block_bytes, &bytes)) {
    return InvalidArgument("{} elements of {} are more bytes than 64 bits can count", elements,
                           traits.name);
  }
  return bytes;
}

}  // namespace decant
