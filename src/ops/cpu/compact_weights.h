#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace decant {

/// Weights that stay quantised in memory, for steps of a few tokens, which wait for weights and
/// nothing else.
///
/// The packing goes by 16 rows and, within them, by blocks of 32 columns. A block is 16 fp16
/// scales, 16 fp16 offsets, and the codes in vectors of 32-bit lanes: lane j of a low vector
/// belongs to row j / 2 and to columns of parity j % 2, a high vector to rows 8 more. 4 bits: two
/// pairs of low and high vectors; nibble p of pair h is column 16 h + 2 p + parity. 8 bits: sixteen
/// pairs of 16 bytes; pair p is columns 2 p + parity.

/// For products with 8-bit activations a block's codes go by fours of columns: lane r of vector i
/// is columns 4 i to 4 i + 3 of row r, a byte each. 4 bits: one vector for two, the even one in the
/// low nibbles. 8 bits: stored 128 too high, so without a sign.

/// Bytes of a slice [rows, cols]; rows a multiple of 16, cols of 32.
size_t CompactBytes(int32_t rows, int64_t cols, int code_bits);

/// Packs codes [rows, cols] with scales and offsets [rows, cols / 32] (fp16 bits) into `out`,
/// CompactBytes of it.
void PackCompact(int32_t rows, int64_t cols, int code_bits, const int8_t* codes,
                 const uint16_t* scales, const uint16_t* offsets, std::byte* out);

/// The same for products with 8-bit activations.
void PackForInt8(int32_t rows, int64_t cols, int code_bits, const int8_t* codes,
                 const uint16_t* scales, const uint16_t* offsets, std::byte* out);

}  // namespace decant
