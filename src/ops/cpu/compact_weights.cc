#include "ops/cpu/compact_weights.h"

#include <cstring>

#include "base/check.h"

namespace decant {
namespace {

constexpr int32_t kGroupRows = 16;
constexpr int64_t kBlockCols = 32;
constexpr int64_t kHeaderBytes = int64_t{2} * kGroupRows * sizeof(uint16_t);

/// The codes of a block of 16 rows; `code(row, col)` gives them.
template <typename Code>
void PackNibbles(const Code& code, std::byte* out) {
  for (int half = 0; half < 2; ++half) {
    for (int row_half = 0; row_half < 2; ++row_half) {
      for (int lane = 0; lane < 16; ++lane) {
        uint32_t bits = 0;
        for (int pair = 0; pair < 8; ++pair) {
          const auto nibble = static_cast<uint32_t>(
              code(row_half * 8 + lane / 2, half * 16 + 2 * pair + lane % 2) & 15);
          bits |= nibble << (4 * pair);
        }
        std::memcpy(out, &bits, sizeof(bits));
        out += sizeof(bits);
      }
    }
  }
}

template <typename Code>
void PackBytes(const Code& code, std::byte* out) {
  for (int pair = 0; pair < 16; ++pair) {
    for (int lane = 0; lane < 32; ++lane) {
      *out++ = static_cast<std::byte>(code(lane / 2, 2 * pair + lane % 2));
    }
  }
}

/// The codes of a block of 16 rows in fours of columns.
template <typename Code>
void PackFours(int code_bits, const Code& code, std::byte* out) {
  const int columns = code_bits == 4 ? 8 : 4;  // in one vector
  for (int first = 0; first < kBlockCols; first += columns) {
    for (int row = 0; row < kGroupRows; ++row) {
      for (int i = 0; i < 4; ++i) {
        const int bits = code_bits == 4
                             ? (code(row, first + i) & 15) | (code(row, first + 4 + i) & 15) << 4
                             : code(row, first + i) + 128;
        *out++ = static_cast<std::byte>(bits);
      }
    }
  }
}

/// Packs block by block: header, then what `pack(code, out)` makes of the codes.
template <typename Pack>
void PackBlocks(int32_t rows, int64_t cols, int code_bits, const int8_t* codes,
                const uint16_t* scales, const uint16_t* offsets, std::byte* out, const Pack& pack) {
  DECANT_CHECK(rows % kGroupRows == 0 && cols % kBlockCols == 0, "{} x {}", rows, cols);
  DECANT_CHECK(code_bits == 4 || code_bits == 8, "{} bits", code_bits);
  const int64_t blocks = cols / kBlockCols;
  for (int32_t first = 0; first < rows; first += kGroupRows) {
    for (int64_t block = 0; block < blocks; ++block) {
      for (const uint16_t* halves : {scales, offsets}) {
        for (int32_t row = first; row < first + kGroupRows; ++row) {
          std::memcpy(out, halves + row * blocks + block, sizeof(uint16_t));
          out += sizeof(uint16_t);
        }
      }
      pack([&](int row,
               int64_t col) { return codes[(first + row) * cols + block * kBlockCols + col]; },
           out);
      out += kGroupRows * kBlockCols * code_bits / 8;
    }
  }
}

}  // namespace

size_t CompactBytes(int32_t rows, int64_t cols, int code_bits) {
  const int64_t block_bytes = kHeaderBytes + kGroupRows * kBlockCols * code_bits / 8;
  return static_cast<size_t>(rows / kGroupRows * (cols / kBlockCols) * block_bytes);
}

void PackCompact(int32_t rows, int64_t cols, int code_bits, const int8_t* codes,
                 const uint16_t* scales, const uint16_t* offsets, std::byte* out) {
  PackBlocks(rows, cols, code_bits, codes, scales, offsets, out,
             [code_bits](const auto& code, std::byte* block) {
               if (code_bits == 4) {
                 PackNibbles(code, block);
               } else {
                 PackBytes(code, block);
               }
             });
}

void PackForInt8(int32_t rows, int64_t cols, int code_bits, const int8_t* codes,
                 const uint16_t* scales, const uint16_t* offsets, std::byte* out) {
  PackBlocks(
      rows, cols, code_bits, codes, scales, offsets, out,
      [code_bits](const auto& code, std::byte* block) { PackFours(code_bits, code, block); });
}

}  // namespace decant
