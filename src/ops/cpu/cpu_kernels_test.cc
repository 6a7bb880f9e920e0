#include "ops/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

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

INSTANTIATE_TEST_SUITE_P(Levels, CpuKernelsTest,
                         testing::Values(CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512,
                                         CpuLevel::kAvx512Bf16, CpuLevel::kAmx),
                         [](const auto& level) { return std::string(CpuLevelName(level.param)); });

}  // namespace
}  // namespace decant
