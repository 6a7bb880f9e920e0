#include "weights/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "weights/half.h"
#include "weights/mapped_file.h"
#include "weights/testing/quantize.h"

namespace decant {
namespace {

MappedFile Golden(const std::string& name) {
  return MappedFile::Open(std::string(DECANT_TEST_DATA) + "/dequant/" + name).value();
}

std::vector<float> Floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

class GoldenTest : public ::testing::TestWithParam<GgmlType> {};

TEST_P(GoldenTest, EqualsTheReferenceToTheBit) {
  const GgmlType type = GetParam();
  const std::string name(GgmlTypeName(type));
  const MappedFile blocks = Golden(name + ".blocks");
  const std::vector<float> expected = Floats(Golden(name + ".f32").bytes());
  ASSERT_GE(expected.size(), 256u);

  std::vector<float> decoded(expected.size());
  const Status status = Dequantize(type, blocks.bytes(), decoded);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(expected[i]))
        << "element " << i << " is " << decoded[i] << ", not " << expected[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenTest,
                         ::testing::Values(GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16,
                                           GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0,
                                           GgmlType::kQ5_1, GgmlType::kQ8_0, GgmlType::kQ2_K,
                                           GgmlType::kQ3_K, GgmlType::kQ4_K, GgmlType::kQ5_K,
                                           GgmlType::kQ6_K),
                         [](const auto& test) { return std::string(GgmlTypeName(test.param)); });

TEST(HalfTest, EveryHalfHasItsValueAndComesBack) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const uint32_t exponent = (half >> 10) & 31;
    const uint32_t mantissa = half & 1023;
    const float value = FloatFromHalf(static_cast<uint16_t>(half));
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value)) << half;
      continue;
    }
    float magnitude = std::numeric_limits<float>::infinity();
    if (exponent == 0) magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    if (exponent > 0 && exponent < 31) {
      magnitude = std::ldexp(1.0f + static_cast<float>(mantissa) / 1024.0f,
                             static_cast<int>(exponent) - 15);
    }
    ASSERT_EQ(value, (half & 0x8000) != 0 ? -magnitude : magnitude) << half;
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
    ASSERT_EQ(testing::HalfFromFloat(value), half);
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  EXPECT_EQ(testing::HalfFromFloat(1.0f + 0x1p-11f), 0x3c00);  // a tie, down
  EXPECT_EQ(testing::HalfFromFloat(1.0f + 0x3p-11f), 0x3c02);  // a tie, up
  EXPECT_EQ(testing::HalfFromFloat(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(testing::HalfFromFloat(65519.0f), 0x7bff);
  EXPECT_EQ(testing::HalfFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(testing::HalfFromFloat(0x1p-25f), 0x0000);  // a tie, down to 0
  EXPECT_EQ(testing::HalfFromFloat(0x1.002p-25f), 0x0001);
}

class QuantizeTest : public ::testing::TestWithParam<GgmlType> {};

TEST_P(QuantizeTest, ComesBackWithinHalfALevel) {
  constexpr float kRange = 2.0f;
  const CounterRng random(7);
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = kRange * static_cast<float>(2.0 * random.Uniform(i) - 1.0);
  }
  std::vector<float> decoded(values.size());
  ASSERT_TRUE(Dequantize(GetParam(), testing::Quantize(GetParam(), values), decoded).ok());

  // Half a level, and what the fp16 scales add.
  float allowed = 0.0f;
  if (GetParam() == GgmlType::kF16) allowed = kRange * 0x1p-11f;
  if (GetParam() == GgmlType::kBf16) allowed = kRange * 0x1p-8f;
  if (GetParam() == GgmlType::kQ8_0) allowed = kRange / 127 * 0.57f;
  if (GetParam() == GgmlType::kQ4_1) allowed = 2 * kRange / 15 * 0.52f;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::fabs(decoded[i] - values[i]), allowed) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizeTest,
                         ::testing::Values(GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16,
                                           GgmlType::kQ8_0, GgmlType::kQ4_1),
                         [](const auto& test) { return std::string(GgmlTypeName(test.param)); });

TEST(DequantizeTest, PiecesOnThreadsGiveTheSame) {
  constexpr size_t kElements = 200'000 / 256 * 256;
  const CounterRng random(11);
  std::vector<std::byte> blocks(EncodedBytes(GgmlType::kQ6_K, kElements).value());
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(random.Bits(i));
  std::vector<float> alone(kElements);
  ASSERT_TRUE(Dequantize(GgmlType::kQ6_K, blocks, alone).ok());

  int64_t pieces = 0;
  const ParallelFor backwards = [&](int64_t n, const auto& body) {
    pieces = n;
    std::vector<std::thread> threads;
    for (int64_t i = n - 1; i >= 0; --i) threads.emplace_back([&body, i] { body(i, i + 1); });
    for (std::thread& thread : threads) thread.join();
  };
  std::vector<float> together(kElements, -1.0f);
  ASSERT_TRUE(Dequantize(GgmlType::kQ6_K, blocks, together, backwards).ok());
  EXPECT_GT(pieces, 2);
  EXPECT_EQ(std::memcmp(alone.data(), together.data(), kElements * sizeof(float)), 0);
}

TEST(DequantizeTest, RefusesSizesThatDoNotMatch) {
  const std::vector<std::byte> blocks(34 * 2);
  std::vector<float> values(64);
  EXPECT_TRUE(Dequantize(GgmlType::kQ8_0, blocks, values).ok());

  Status status = Dequantize(GgmlType::kQ8_0, std::span(blocks).first(67), values);
  EXPECT_NE(status.message().find("64 elements of Q8_0 take 68 bytes, not 67"), std::string::npos)
      << status.message();
  status = Dequantize(GgmlType::kQ8_0, blocks, std::span(values).first(63));
  EXPECT_NE(status.message().find("not a whole number of Q8_0 blocks"), std::string::npos)
      << status.message();
  EXPECT_FALSE(Dequantize(GgmlType::kQ8_0, {}, {}).ok());
}

TEST(DequantizeTest, RefusesATypeItDoesNotKnow) {
  const std::vector<std::byte> blocks(18);
  std::vector<float> values(32);
  const Status status = Dequantize(GgmlType::kIq4Nl, blocks, values);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("IQ4_NL"), std::string::npos) << status.message();
  EXPECT_FALSE(CanDequantize(GgmlType::kIq4Nl));
  EXPECT_TRUE(CanDequantize(GgmlType::kQ3_K));
}

TEST(GgmlTypeTest, NumbersAreTheFormats) {
  EXPECT_EQ(GgmlTypeFromNumber(12), GgmlType::kQ4_K);
  EXPECT_EQ(GgmlTypeFromNumber(30), GgmlType::kBf16);
  EXPECT_EQ(GgmlTypeFromNumber(4), std::nullopt);  // Q4_2, dropped from the format
  EXPECT_EQ(GgmlTypeFromNumber(31), std::nullopt);
  EXPECT_EQ(GgmlTypeFromNumber(0xffffffff), std::nullopt);
}

TEST(GgmlTypeTest, EncodedBytesCannotOverflow) {
  EXPECT_EQ(EncodedBytes(GgmlType::kQ4_1, 64).value(), 40);
  EXPECT_FALSE(EncodedBytes(GgmlType::kF32, std::numeric_limits<int64_t>::max()).ok());
  EXPECT_FALSE(EncodedBytes(GgmlType::kF32, 0).ok());
  EXPECT_FALSE(EncodedBytes(GgmlType::kF32, -4).ok());
}

}  // namespace
}  // namespace decant
