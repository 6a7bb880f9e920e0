#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ops/cuda/argmax.h"
#include "ops/cuda/sampler.h"
#include "ops/cuda/testing/small_tests.h"
#include "runtime/draw_cases.h"
#include "runtime/sampler.h"
#include "runtime/step_draws.h"
#include "runtime/step_failures.h"

namespace decant {
namespace {

TEST(CudaSamplerTest, DrawsWhatTheHostDraws) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  ASSERT_TRUE(OpenCudaDevice(0).ok());
  const int32_t vocab = SmallTests() ? 5003 : 32003;
  const uint64_t step_count = SmallTests() ? 1 : 4;
  const std::vector<std::vector<float>> logits = DrawLogits(vocab);
  const std::vector<SamplingParams> cases = DrawCases(vocab);
  const auto rows = static_cast<int32_t>(cases.size());
  const std::vector<Token> prompt = {1, 7, 7, 30, 200};
  const std::vector<Token> stop_tokens = {2, 209};

  CudaSampler sampler = CudaSampler::Create({.max_rows = rows, .vocab = vocab}).value();
  const CudaStream stream = CudaStream::Create().value();
  const size_t row_bytes = vocab * sizeof(float);
  const DeviceBuffer device_logits = DeviceBuffer::Allocate(rows * row_bytes, "logits").value();
  const DeviceBuffer last = DeviceBuffer::Allocate(rows * sizeof(int32_t), "tokens").value();
  const DeviceBuffer out = DeviceBuffer::Allocate(rows * sizeof(int32_t), "tokens").value();
  std::vector<Sampler> host(rows);
  StepDraws draws;
  for (uint64_t i = 0; i < step_count; ++i) {
    draws.Clear();
    std::vector<Token> expected(rows);
    std::vector<Token> expected_last(rows);
    for (int32_t r = 0; r < rows; ++r) {
      const std::vector<float>& values = logits[(i + cases[r].seed) % logits.size()];
      ASSERT_EQ(CopyToDevice(device_logits.data() + r * row_bytes, values.data(), row_bytes),
                cudaSuccess);
      AddDraw({.row = rows - 1 - r,
               .samples = true,
               .prompt = prompt,
               .stop_tokens = stop_tokens,
               .sampling = cases[r],
               .sample_index = i},
              draws);
      expected_last[r] = host[r].Sample(
          values, cases[r], {.sample_index = i, .prompt = prompt, .stop_tokens = stop_tokens});
      expected[r] = CanDraw(values) ? expected_last[r] : kNoDraw;
    }
    ASSERT_TRUE(
        sampler
            .Draw(draws, device_logits.As<float>(), last.As<int32_t>(), out.As<int32_t>(), stream)
            .ok());
    ASSERT_TRUE(stream.Synchronize().ok());
    std::vector<Token> tokens(rows);
    std::vector<Token> last_tokens(rows);
    cudaMemcpy(tokens.data(), out.data(), out.size(), cudaMemcpyDeviceToHost);
    cudaMemcpy(last_tokens.data(), last.data(), last.size(), cudaMemcpyDeviceToHost);
    for (int32_t r = 0; r < rows; ++r) {
      EXPECT_EQ(tokens[r], expected[r]) << "draw " << i << " of case " << r;
      EXPECT_EQ(last_tokens[rows - 1 - r], expected_last[r]);
    }
  }
}

/// Greedy rows without penalties take a kernel of their own.
TEST(CudaSamplerTest, ArgmaxTellsOfRowsFromWhichNoTokenCanBeDrawn) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  ASSERT_TRUE(OpenCudaDevice(0).ok());
  const CudaStream stream = CudaStream::Create().value();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const int32_t vocab : {1000, 32003}) {
    constexpr int32_t kRows = 6;
    std::vector<float> logits(static_cast<size_t>(kRows) * vocab);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 97);
    const auto row = [&](int32_t r) { return logits.data() + static_cast<size_t>(r) * vocab; };
    row(1)[vocab - 1] = kNaN;
    row(2)[7] = kInf;
    row(3)[7] = -kInf;  // which is how a model says never
    std::fill(row(4), row(5), kNaN);
    row(5)[0] = kNaN;
    const DeviceBuffer values =
        DeviceBuffer::Allocate(logits.size() * sizeof(float), "logits").value();
    const DeviceBuffer last = DeviceBuffer::Allocate(kRows * sizeof(int32_t), "tokens").value();
    const DeviceBuffer out = DeviceBuffer::Allocate(kRows * sizeof(int32_t), "tokens").value();
    ASSERT_EQ(CopyToDevice(values.data(), logits.data(), values.size()), cudaSuccess);
    const std::vector<int32_t> slots = {5, 4, 3, 2, 1, 0};
    LaunchArgmax(values.As<float>(), vocab, slots, last.As<int32_t>(), out.As<int32_t>(),
                 stream.get());
    ASSERT_TRUE(stream.Synchronize().ok());
    std::vector<Token> tokens(kRows);
    std::vector<Token> last_tokens(kRows);
    cudaMemcpy(tokens.data(), out.data(), out.size(), cudaMemcpyDeviceToHost);
    cudaMemcpy(last_tokens.data(), last.data(), last.size(), cudaMemcpyDeviceToHost);
    for (int32_t r = 0; r < kRows; ++r) {
      const std::span<const float> all(row(r), static_cast<size_t>(vocab));
      const Token largest = Sampler().Sample(all, {}, {});
      EXPECT_EQ(last_tokens[slots[r]], largest) << r;
      EXPECT_EQ(tokens[r], r == 0 || r == 3 ? largest : kNoDraw) << r;
      EXPECT_EQ(CanDraw(all), r == 0 || r == 3) << r;
    }
  }
}

}  // namespace
}  // namespace decant
