#include "weights/block_codes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "weights/dequantize.h"
#include "weights/half.h"

namespace decant {
namespace {

TEST(BlockCodesTest, ScaleTimesCodePlusOffsetIsTheWeight) {
  constexpr int64_t kElements = 4096;
  for (GgmlType type : {GgmlType::kQ4_1, GgmlType::kQ8_0}) {
    ASSERT_NE(BlockCodeBits(type), 0);
    std::vector<std::byte> bytes(EncodedBytes(type, kElements).value());
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(CounterRng(3).Below(i, 256));
    }
    // Scales and offsets of ordinary size: exponents without infinities and NaNs.
    const auto block_bytes = static_cast<size_t>(TraitsOf(type).block_bytes);
    for (size_t block = 0; block < bytes.size(); block += block_bytes) {
      for (size_t high : {block + 1, block + 3}) bytes[high] &= std::byte{0xbf};
    }
    std::vector<float> weights(kElements);
    ASSERT_TRUE(Dequantize(type, bytes, weights).ok());
    std::vector<int8_t> codes(kElements);
    std::vector<uint16_t> scales(kElements / kCodeBlock);
    std::vector<uint16_t> offsets(scales.size());
    ASSERT_TRUE(ReadBlockCodes(type, bytes, codes, scales, offsets).ok());
    for (int64_t i = 0; i < kElements; ++i) {
      const float weight = FloatFromHalf(scales[i / kCodeBlock]) * static_cast<float>(codes[i]) +
                           FloatFromHalf(offsets[i / kCodeBlock]);
      ASSERT_EQ(weight, weights[i]) << GgmlTypeName(type) << " element " << i;
    }
  }
}

TEST(BlockCodesTest, RefusesOtherTypesAndSizes) {
  std::vector<std::byte> bytes(20);
  std::vector<int8_t> codes(32);
  std::vector<uint16_t> one(1);
  EXPECT_TRUE(ReadBlockCodes(GgmlType::kQ4_1, bytes, codes, one, one).ok());
  EXPECT_EQ(BlockCodeBits(GgmlType::kQ6_K), 0);
  EXPECT_FALSE(ReadBlockCodes(GgmlType::kQ6_K, bytes, codes, one, one).ok());
  EXPECT_FALSE(ReadBlockCodes(GgmlType::kQ8_0, bytes, codes, one, one).ok());
  codes.resize(31);
  EXPECT_FALSE(ReadBlockCodes(GgmlType::kQ4_1, bytes, codes, one, one).ok());
}

}  // namespace
}  // namespace decant
