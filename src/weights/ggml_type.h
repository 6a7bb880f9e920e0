#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace decant {

/// How a tensor's elements are encoded in a GGUF file; the numbers are the file format's own
/// (ggml's `enum ggml_type`). A row is a whole number of blocks.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIq2Xxs = 16,
  kIq2Xs = 17,
  kIq3Xxs = 18,
  kIq1S = 19,
  kIq4Nl = 20,
  kIq3S = 21,
  kIq2S = 22,
  kIq4Xs = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIq1M = 29,
  kBf16 = 30,
  kTq1_0 = 34,
  kTq2_0 = 35,
  kMxfp4 = 39,
};

struct GgmlTypeTraits {
  GgmlType type;
  std::string_view name;  ///< As llama.cpp prints it: "Q4_K".
  int64_t block_elements;
  int64_t block_bytes;
};

/// The type with this number in a file; nothing for numbers that the format never had or dropped.
std::optional<GgmlType> GgmlTypeFromNumber(uint32_t number);

/// Size and name; `type` must be an enumerator.
const GgmlTypeTraits& TraitsOf(GgmlType type);

inline std::string_view GgmlTypeName(GgmlType type) { return TraitsOf(type).name; }

/// Bytes that `elements` of a type take. Errors: not a positive whole number of blocks, or more
/// bytes than 64 bits can count.
Expected<int64_t> EncodedBytes(GgmlType type, int64_t elements);

}  // namespace decant
