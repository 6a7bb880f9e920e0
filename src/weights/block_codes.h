#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "weights/ggml_type.h"

namespace decant {

/// Elements that share a scale and an offset in the encodings below.
inline constexpr int64_t kCodeBlock = 32;

/// Bits of a code of the types whose blocks of 32 elements are scale * code + offset with fp16
/// scale and offset: 4 for Q4_1 (codes 0 to 15), 8 for Q8_0 (codes -127 to 127, offset 0). 0 for
/// all other types.
int BlockCodeBits(GgmlType type);

/// Takes whole blocks of such a type apart. codes: [elements]; scales and offsets: [elements / 32],
/// bits of fp16 numbers.
Status ReadBlockCodes(GgmlType type, std::span<const std::byte> src, std::span<int8_t> codes,
                      std::span<uint16_t> scales, std::span<uint16_t> offsets);

}  // namespace decant
