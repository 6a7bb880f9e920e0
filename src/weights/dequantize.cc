#include "weights/dequantize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/narrow.h"
#include "weights/half.h"

// The block layouts follow ggml's documentation of its formats (ggml-common.h: block_q4_0 to
// block_q6_K); numbers are little-endian. In the names below d is a block's scale and m its
// minimum; the K types hold 256 elements in sub-blocks with small integer scales of their own.

namespace decant {
namespace {

using Decoder = void (*)(const uint8_t* src, float* dst, int64_t blocks);

uint16_t LoadU16(const uint8_t* src) {
  uint16_t value = 0;
  std::memcpy(&value, src, sizeof(value));
  return value;
}

float LoadHalf(const uint8_t* src) { return FloatFromHalf(LoadU16(src)); }

void DecodeF32(const uint8_t* src, float* dst, int64_t elements) {
  std::memcpy(dst, src, static_cast<size_t>(elements) * sizeof(float));
}

void DecodeF16(const uint8_t* src, float* dst, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) dst[i] = LoadHalf(src + 2 * i);
}

void DecodeBf16(const uint8_t* src, float* dst, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) dst[i] = FloatFromBfloat16(LoadU16(src + 2 * i));
}

// d (fp16), 16 bytes: element i in the low nibble of byte i, element 16 + i in the high one.
void DecodeQ4_0(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 18, dst += 32) {
    const float d = LoadHalf(src);
    for (int i = 0; i < 16; ++i) {
      const int q = src[2 + i];
      dst[i] = d * static_cast<float>((q & 15) - 8);
      dst[16 + i] = d * static_cast<float>((q >> 4) - 8);
    }
  }
}

// d, m (fp16), then nibbles as in Q4_0.
void DecodeQ4_1(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 20, dst += 32) {
    const float d = LoadHalf(src);
    const float m = LoadHalf(src + 2);
    for (int i = 0; i < 16; ++i) {
      const int q = src[4 + i];
      dst[i] = d * static_cast<float>(q & 15) + m;
      dst[16 + i] = d * static_cast<float>(q >> 4) + m;
    }
  }
}

// The 32 fifth bits of a Q5_0 or Q5_1 block, each at its place (16 or 0): bit i belongs to element
// i.
std::array<uint8_t, 32> FifthBits(const uint8_t* src) {
  std::array<uint8_t, 32> bits;
  for (int i = 0; i < 32; ++i) {
    bits[i] = static_cast<uint8_t>(((src[i / 8] >> (i % 8)) & 1) << 4);
  }
  return bits;
}

// d (fp16), 32 fifth bits, then nibbles as in Q4_0.
void DecodeQ5_0(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 22, dst += 32) {
    const float d = LoadHalf(src);
    const std::array<uint8_t, 32> high = FifthBits(src + 2);
    for (int i = 0; i < 16; ++i) {
      const int q = src[6 + i];
      dst[i] = d * static_cast<float>(((q & 15) | high[i]) - 16);
      dst[16 + i] = d * static_cast<float>(((q >> 4) | high[16 + i]) - 16);
    }
  }
}

// d, m (fp16), 32 fifth bits, then nibbles as in Q4_0.
void DecodeQ5_1(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 24, dst += 32) {
    const float d = LoadHalf(src);
    const float m = LoadHalf(src + 2);
    const std::array<uint8_t, 32> high = FifthBits(src + 4);
    for (int i = 0; i < 16; ++i) {
      const int q = src[8 + i];
      dst[i] = d * static_cast<float>((q & 15) | high[i]) + m;
      dst[16 + i] = d * static_cast<float>((q >> 4) | high[16 + i]) + m;
    }
  }
}

// d (fp16), 32 signed bytes.
void DecodeQ8_0(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 34, dst += 32) {
    const float d = LoadHalf(src);
    for (int i = 0; i < 32; ++i) {
      dst[i] = static_cast<float>(static_cast<int8_t>(src[2 + i])) * d;
    }
  }
}

// 16 bytes (scale low, minimum high nibble, one a sub-block of 16), 64 bytes of 2-bit elements, d,
// dmin. Each half of 128 elements has 32 bytes, whose bits 2k and 2k+1 hold the k-th 32 of it.
void DecodeQ2_K(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 84, dst += 256) {
    const float d = LoadHalf(src + 80);
    const float dmin = LoadHalf(src + 82);
    for (int sub = 0; sub < 16; ++sub) {
      const float scale = d * static_cast<float>(src[sub] & 15);
      const float minimum = dmin * static_cast<float>(src[sub] >> 4);
      const uint8_t* q = src + 16 + 32 * (sub / 8) + 16 * (sub % 2);
      const int shift = 2 * (sub % 8 / 2);
      for (int i = 0; i < 16; ++i) {
        dst[16 * sub + i] = scale * static_cast<float>((q[i] >> shift) & 3) - minimum;
      }
    }
  }
}

// The 16 six-bit scales of a Q3_K block, less 32: low four bits in the nibbles of bytes 0 to 7 (all
// low nibbles first), high two bits in bytes 8 to 11, two bits of every byte at a time.
std::array<int, 16> Q3Scales(const uint8_t* src) {
  std::array<int, 16> scales;
  for (int i = 0; i < 16; ++i) {
    const int low = (src[i % 8] >> (4 * (i / 8))) & 15;
    const int high = (src[8 + i % 4] >> (2 * (i / 4))) & 3;
    scales[i] = (low | (high << 4)) - 32;
  }
  return scales;
}

// 32 bytes of third bits (bit k of byte i: element 32k + i; clear means minus 4), 64 bytes of low
// bits as in Q2_K, 12 bytes of scales, d.
void DecodeQ3_K(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 110, dst += 256) {
    const float d = LoadHalf(src + 108);
    const std::array<int, 16> scales = Q3Scales(src + 96);
    for (int sub = 0; sub < 16; ++sub) {
      const float scale = d * static_cast<float>(scales[sub]);
      const uint8_t* high = src + 16 * (sub % 2);
      const uint8_t* q = src + 32 + 32 * (sub / 8) + 16 * (sub % 2);
      const int shift = 2 * (sub % 8 / 2);
      for (int i = 0; i < 16; ++i) {
        const int third = (high[i] >> (sub / 2)) & 1;
        dst[16 * sub + i] = scale * static_cast<float>(((q[i] >> shift) & 3) + 4 * third - 4);
      }
    }
  }
}

struct ScaleAndMinimum {
  int scale;
  int minimum;
};

// One of the 8 pairs of six-bit numbers in the 12 bytes of a Q4_K or Q5_K block: pairs 0 to 3 in
// the low six bits of bytes 0-3 (scales) and 4-7 (minima); pairs 4 to 7 have their low four bits in
// the nibbles of bytes 8-11 and their high two bits above those of pairs 0 to 3.
ScaleAndMinimum UnpackScale(const uint8_t* src, int pair) {
  if (pair < 4) return {src[pair] & 63, src[4 + pair] & 63};
  const int low = src[4 + pair];
  return {(low & 15) | ((src[pair - 4] >> 6) << 4), (low >> 4) | ((src[pair] >> 6) << 4)};
}

// d, dmin (fp16), 12 bytes of scales, 128 bytes: each 32 bytes hold 32 elements in their low
// nibbles and the next 32 in their high ones.
void DecodeQ4_K(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 144, dst += 256) {
    const float d = LoadHalf(src);
    const float dmin = LoadHalf(src + 2);
    for (int sub = 0; sub < 8; ++sub) {
      const ScaleAndMinimum packed = UnpackScale(src + 4, sub);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const uint8_t* q = src + 16 + 32 * (sub / 2);
      const int shift = 4 * (sub % 2);
      for (int i = 0; i < 32; ++i) {
        dst[32 * sub + i] = scale * static_cast<float>((q[i] >> shift) & 15) - minimum;
      }
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits (bit k of byte i: element 32k + i) before the nibbles.
void DecodeQ5_K(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 176, dst += 256) {
    const float d = LoadHalf(src);
    const float dmin = LoadHalf(src + 2);
    const uint8_t* high = src + 16;
    for (int sub = 0; sub < 8; ++sub) {
      const ScaleAndMinimum packed = UnpackScale(src + 4, sub);
      const float scale = d * static_cast<float>(packed.scale);
      const float minimum = dmin * static_cast<float>(packed.minimum);
      const uint8_t* q = src + 48 + 32 * (sub / 2);
      const int shift = 4 * (sub % 2);
      for (int i = 0; i < 32; ++i) {
        const int fifth = (high[i] >> sub) & 1;
        dst[32 * sub + i] =
            scale * static_cast<float>(((q[i] >> shift) & 15) | (fifth << 4)) - minimum;
      }
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales (one a sub-block of 16),
// d. In each half of 128 elements, 64 bytes hold elements 0-63 low and 64-127 high; bits 2k and
// 2k+1 of 32 further bytes belong to the k-th 32.
void DecodeQ6_K(const uint8_t* src, float* dst, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block, src += 210, dst += 256) {
    const float d = LoadHalf(src + 208);
    for (int sub = 0; sub < 16; ++sub) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(src[192 + sub]));
      const int in_half = sub % 8;
      const uint8_t* low = src + 64 * (sub / 8) + 16 * (in_half % 4);
      const uint8_t* high = src + 128 + 32 * (sub / 8) + 16 * (sub % 2);
      const int low_shift = 4 * (in_half / 4);
      const int high_shift = 2 * (in_half / 2);
      for (int i = 0; i < 16; ++i) {
        const int q = ((low[i] >> low_shift) & 15) | (((high[i] >> high_shift) & 3) << 4);
        dst[16 * sub + i] = scale * static_cast<float>(q - 32);
      }
    }
  }
}

Decoder FindDecoder(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return DecodeF32;
    case GgmlType::kF16:
      return DecodeF16;
    case GgmlType::kBf16:
      return DecodeBf16;
    case GgmlType::kQ4_0:
      return DecodeQ4_0;
    case GgmlType::kQ4_1:
      return DecodeQ4_1;
    case GgmlType::kQ5_0:
      return DecodeQ5_0;
    case GgmlType::kQ5_1:
      return DecodeQ5_1;
    case GgmlType::kQ8_0:
      return DecodeQ8_0;
    case GgmlType::kQ2_K:
      return DecodeQ2_K;
    case GgmlType::kQ3_K:
      return DecodeQ3_K;
    case GgmlType::kQ4_K:
      return DecodeQ4_K;
    case GgmlType::kQ5_K:
      return DecodeQ5_K;
    case GgmlType::kQ6_K:
      return DecodeQ6_K;
    default:
      return nullptr;
  }
}

constexpr int64_t kPieceElements = 64 << 10;

}  // namespace

bool CanDequantize(GgmlType type) { return FindDecoder(type) != nullptr; }

Status Dequantize(GgmlType type, std::span<const std::byte> src, std::span<float> dst) {
  return Dequantize(
      type, src, dst,
      [](int64_t n, const std::function<void(int64_t, int64_t)>& body) { body(0, n); });
}

Status Dequantize(GgmlType type, std::span<const std::byte> src, std::span<float> dst,
                  const ParallelFor& parallel_for) {
  const Decoder decode = FindDecoder(type);
  if (decode == nullptr) {
    return Error(StatusCode::kUnimplemented,
                 "tensors of type {} are not supported; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
                 "Q8_0 and Q2_K to Q6_K are",
                 GgmlTypeName(type));
  }
  const auto elements = Narrow<int64_t>(dst.size());
  DECANT_ASSIGN_OR_RETURN(const int64_t bytes, EncodedBytes(type, elements));
  if (Narrow<int64_t>(src.size()) != bytes) {
    return InvalidArgument("{} elements of {} take {} bytes, not {}", elements, GgmlTypeName(type),
                           bytes, src.size());
  }

  const GgmlTypeTraits& traits = TraitsOf(type);
  const int64_t blocks = elements / traits.block_elements;
  const int64_t piece_blocks = kPieceElements / traits.block_elements;
  const auto* encoded = reinterpret_cast<const uint8_t*>(src.data());
  parallel_for(CeilDiv(blocks, piece_blocks), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * piece_blocks;
    const int64_t last = std::min(end * piece_blocks, blocks);
    decode(encoded + first * traits.block_bytes, dst.data() + first * traits.block_elements,
           last - first);
  });
  return Status();
}

}  // namespace decant
