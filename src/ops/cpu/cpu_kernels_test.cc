#include "ops/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "ops/cpu/compact_weights.h"
#include "tensor/f16.h"

namespace decant {
namespace {

constexpr int32_t kSize = 579;  // not a multiple of any vector

std::vector<float> Draw(uint64_t key, float range) {
  std::vector<float> values(kSize);
  for (int32_t i = 0; i < kSize; ++i) {
    values[i] = static_cast<float>((CounterRng(key).Uniform(i) * 2 - 1) * range);
  }
  return values;
}

class CpuKernelsTest : public testing::TestWithParam<CpuLevel> {
 protected:
  void SetUp() override {
    if (GetParam() > DetectCpuLevel()) GTEST_SKIP() << "this processor lacks it";
  }
  const CpuKernels& kernels() const { return KernelsFor(GetParam()); }
};

TEST_P(CpuKernelsTest, RmsNorm) {
  const std::vector<float> x = Draw(1, 3);
  const std::vector<float> weight = Draw(2, 1);
  double squares = 0;
  for (float value : x) squares += double{value} * value;
  std::vector<float> out(kSize);
  std::vector<Bf16> rounded(kSize);
  kernels().rms_norm_f32(x.data(), weight.data(), 1e-5F, kSize, out.data());
  kernels().rms_norm_bf16(x.data(), weight.data(), 1e-5F, kSize, rounded.data());
  for (int32_t i = 0; i < kSize; ++i) {
    const double exact = x[i] / std::sqrt(squares / kSize + 1e-5) * weight[i];
    EXPECT_NEAR(out[i], exact, 1e-6 * std::abs(exact) + 1e-9);
    EXPECT_EQ(rounded[i].bits, ToBf16(out[i]).bits);
  }
}

TEST_P(CpuKernelsTest, SiluMul) {
  std::vector<float> gate = Draw(3, 20);
  gate[0] = 200;
  gate[1] = -200;
  gate[2] = 0;
  const std::vector<float> up = Draw(4, 2);
  std::vector<float> out(kSize);
  kernels().silu_mul_f32(gate.data(), up.data(), kSize, out.data());
  for (int32_t i = 0; i < kSize; ++i) {
    const double exact = double{gate[i]} / (1 + std::exp(-double{gate[i]})) * up[i];
    EXPECT_NEAR(out[i], exact, 1e-6 * std::abs(exact) + 1e-12) << gate[i];
  }
}

TEST_P(CpuKernelsTest, RopeTurnsPairsOfHalves) {
  constexpr int32_t kDim = 64;
  std::vector<float> head = Draw(5, 1);
  const std::vector<float> before = head;
  std::vector<float> cos(kDim / 2);
  std::vector<float> sin(kDim / 2);
  for (int32_t i = 0; i < kDim / 2; ++i) {
    cos[i] = std::cos(0.1F * static_cast<float>(i));
    sin[i] = std::sin(0.1F * static_cast<float>(i));
  }
  kernels().rope(head.data(), cos.data(), sin.data(), kDim);
  for (int32_t i = 0; i < kDim / 2; ++i) {
    EXPECT_NEAR(head[i], before[i] * cos[i] - before[i + 32] * sin[i], 1e-6);
    EXPECT_NEAR(head[i + 32], before[i + 32] * cos[i] + before[i] * sin[i], 1e-6);
  }
  EXPECT_EQ(head[kDim], before[kDim]);
}

TEST_P(CpuKernelsTest, ToBf16RoundsToEvenAndKeepsSpecials) {
  const std::vector<float> x = {1.0F,     1.00390625F, 1.01171875F,   -0.0F,
                                INFINITY, -INFINITY,   std::nanf(""), 3.4e38F};
  std::vector<Bf16> out(x.size());
  kernels().to_bf16(x.data(), static_cast<int64_t>(x.size()), out.data());
  EXPECT_EQ(ToFloat(out[0]), 1.0F);
  EXPECT_EQ(ToFloat(out[1]), 1.0F);       // halfway, to even
  EXPECT_EQ(ToFloat(out[2]), 1.015625F);  // halfway, to even
  EXPECT_EQ(out[3].bits, 0x8000);
  EXPECT_EQ(ToFloat(out[4]), INFINITY);
  EXPECT_EQ(ToFloat(out[5]), -INFINITY);
  EXPECT_TRUE(std::isnan(ToFloat(out[6])));
  EXPECT_EQ(ToFloat(out[7]), INFINITY);
}

TEST_P(CpuKernelsTest, QuantizeRoundsBlocksToTheNearestCode) {
  constexpr int32_t kCols = 5 * kInt8Block;
  std::vector<float> x = Draw(6, 3);
  x.resize(kCols);
  for (int32_t i = 0; i < kInt8Block; ++i) {
    x[kInt8Block + i] = 0;
    x[2 * kInt8Block + i] *= 1e-35F;  // 127 / max would be infinite
  }
  x[3 * kInt8Block + 5] = std::nanf("");
  x[4 * kInt8Block + 7] = -INFINITY;
  std::vector<int8_t> codes(kCols, 99);
  std::vector<float> scales(5, -1);
  std::vector<float> sums(5, -1);
  kernels().quantize_f32(x.data(), kCols, codes.data(), scales.data(), sums.data());
  float max = 0;
  int32_t sum = 0;
  for (int32_t i = 0; i < kInt8Block; ++i) {
    max = std::max(max, std::abs(x[i]));
    sum += codes[i];
    EXPECT_NEAR(codes[i] * scales[0], x[i], scales[0] * 0.50001F);
    EXPECT_EQ(codes[kInt8Block + i], 0);
    EXPECT_EQ(codes[2 * kInt8Block + i], 0);
  }
  EXPECT_FLOAT_EQ(scales[0], max / 127);
  EXPECT_FLOAT_EQ(sums[0], scales[0] * static_cast<float>(sum));
  EXPECT_EQ(scales[1], 0);
  EXPECT_EQ(scales[2], 0);
  for (int block : {3, 4}) {
    EXPECT_TRUE(std::isnan(scales[block])) << block;
    EXPECT_TRUE(std::isnan(sums[block])) << block;
  }
  std::vector<Bf16> rounded(kInt8Block);
  for (int32_t i = 0; i < kInt8Block; ++i) {
    rounded[i] = ToBf16(x[i]);
    x[i] = ToFloat(rounded[i]);
  }
  std::vector<int8_t> of_bf16(kInt8Block);
  kernels().quantize_bf16(rounded.data(), kInt8Block, of_bf16.data(), &scales[1], &sums[1]);
  kernels().quantize_f32(x.data(), kInt8Block, codes.data(), scales.data(), sums.data());
  EXPECT_TRUE(std::equal(of_bf16.begin(), of_bf16.end(), codes.begin()));
  EXPECT_EQ(scales[1], scales[0]);
}

TEST_P(CpuKernelsTest, Int8ProductsAreThoseOfTheCodes) {
  constexpr int32_t kRows = 48;
  constexpr int32_t kCols = 96;
  constexpr int32_t kBlocks = kCols / kInt8Block;
  constexpr int32_t kTokens = 35;  // tiles of every size
  const CounterRng rng(8);
  for (const int bits : {4, 8}) {
    std::vector<int8_t> codes(kRows * kCols);
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<int8_t>(bits == 4 ? rng.Below(i, 16) : rng.Below(i, 256) - 128);
    }
    // The largest sums that there are.
    std::fill_n(codes.begin(), kCols, static_cast<int8_t>(bits == 4 ? 15 : -128));
    std::vector<uint16_t> scales(kRows * kBlocks);
    std::vector<uint16_t> offsets(scales.size());
    for (size_t i = 0; i < scales.size(); ++i) {
      scales[i] = ToF16(static_cast<float>(rng.Uniform(10000 + i)) - 0.5F).bits;
      offsets[i] = ToF16(static_cast<float>(rng.Uniform(20000 + i)) * 4 - 2).bits;
    }
    std::vector<std::byte> packed(CompactBytes(kRows, kCols, bits));
    PackForInt8(kRows, kCols, bits, codes.data(), scales.data(), offsets.data(), packed.data());
    std::vector<float> x(kTokens * kCols);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = i < 2 * kCols ? (i < kCols ? 1.0F : -1.0F)
                           : static_cast<float>(rng.Uniform(30000 + i)) * 2 - 1;
    }
    std::vector<int8_t> x_codes(x.size());
    std::vector<float> x_scales(kTokens * kBlocks);
    std::vector<float> x_sums(x_scales.size());
    for (int32_t token = 0; token < kTokens; ++token) {
      kernels().quantize_f32(&x[token * kCols], kCols, &x_codes[token * kCols],
                             &x_scales[token * kBlocks], &x_sums[token * kBlocks]);
    }
    const auto multiply = [&](int32_t first, int32_t tokens) {
      std::vector<float> out(tokens * kRows, std::nanf(""));
      const auto run = bits == 4 ? kernels().int8_multiply_4 : kernels().int8_multiply_8;
      run({.packed = packed.data(),
           .out_rows = kRows,
           .cols = kCols,
           .codes = &x_codes[first * kCols],
           .scales = &x_scales[first * kBlocks],
           .sums = &x_sums[first * kBlocks],
           .tokens = tokens,
           .out = out.data()});
      return out;
    };
    const std::vector<float> all = multiply(0, kTokens);
    for (int32_t token = 0; token < kTokens; ++token) {
      for (int32_t row = 0; row < kRows; ++row) {
        double exact = 0;
        double magnitude = 0;
        for (int32_t col = 0; col < kCols; ++col) {
          const int32_t block = row * kBlocks + col / kInt8Block;
          const double input =
              double{x_scales[token * kBlocks + col / kInt8Block]} * x_codes[token * kCols + col];
          const double scaled = double{ToFloat(F16{scales[block]})} * codes[row * kCols + col];
          const double offset = ToFloat(F16{offsets[block]});
          exact += input * (scaled + offset);
          // 8-bit codes may be stored higher than they are, and that be taken off again.
          magnitude += std::abs(input) * (std::abs(scaled) + 64 + std::abs(offset));
        }
        ASSERT_NEAR(all[token * kRows + row], exact, 1e-6 * magnitude)
            << bits << " bits, token " << token << ", row " << row;
      }
    }
    for (const auto& [first, tokens] :
         {std::pair{0, 1}, {34, 1}, {3, 2}, {5, 7}, {1, 16}, {2, 31}}) {
      const std::vector<float> some = multiply(first, tokens);
      EXPECT_EQ(std::memcmp(some.data(), &all[first * kRows], some.size() * sizeof(float)), 0)
          << bits << " bits, " << tokens << " tokens from " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuKernelsTest,
                         testing::Values(CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512,
                                         CpuLevel::kAvx512Bf16, CpuLevel::kAmx),
                         [](const auto& level) { return std::string(CpuLevelName(level.param)); });

}  // namespace
}  // namespace decant
