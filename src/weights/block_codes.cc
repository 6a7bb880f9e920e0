#include "weights/block_codes.h"

#include <cstring>

namespace decant {

int BlockCodeBits(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_1:
      return 4;
    case GgmlType::kQ8_0:
      return 8;
    default:
      return 0;
  }
}

Status ReadBlockCodes(GgmlType type, std::span<const std::byte> src, std::span<int8_t> codes,
                      std::span<uint16_t> scales, std::span<uint16_t> offsets) {
  const int bits = BlockCodeBits(type);
  if (bits == 0) return InvalidArgument("{} has no block codes", GgmlTypeName(type));
  const size_t blocks = codes.size() / kCodeBlock;
  const auto block_bytes = static_cast<size_t>(TraitsOf(type).block_bytes);
  if (codes.size() % kCodeBlock != 0 || src.size() != blocks * block_bytes ||
      scales.size() != blocks || offsets.size() != blocks) {
    return InvalidArgument("{} bytes of {} for {} codes, {} scales and {} offsets", src.size(),
                           GgmlTypeName(type), codes.size(), scales.size(), offsets.size());
  }
  for (size_t block = 0; block < blocks; ++block) {
    const std::byte* bytes = src.data() + block * block_bytes;
    int8_t* out = codes.data() + block * kCodeBlock;
    std::memcpy(&scales[block], bytes, sizeof(uint16_t));
    if (bits == 8) {
      offsets[block] = 0;
      std::memcpy(out, bytes + 2, kCodeBlock);
      continue;
    }
    std::memcpy(&offsets[block], bytes + 2, sizeof(uint16_t));
    for (int i = 0; i < kCodeBlock / 2; ++i) {
      const auto pair = std::to_integer<uint8_t>(bytes[4 + i]);
      out[i] = static_cast<int8_t>(pair & 15);
      out[i + kCodeBlock / 2] = static_cast<int8_t>(pair >> 4);
    }
  }
  return {};
}

}  // namespace decant
