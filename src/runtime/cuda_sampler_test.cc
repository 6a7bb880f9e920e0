#include <gtest/gtest.h>

#include "ops/cuda/sampler.h"
#include "runtime/draw_cases.h"
#include "runtime/sampler.h"
#include "runtime/step_draws.h"

namespace decant {
namespace {

TEST(CudaSamplerTest, DrawsWhatTheHostDraws) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  ASSERT_TRUE(OpenCudaDevice(0).ok());
  constexpr int32_t kVocab = 32003;
  constexpr uint64_t kDraws = 4;
  const std::vector<std::vector<float>> logits = DrawLogits(kVocab);
  const std::vector<SamplingParams> cases = DrawCases(kVocab);
  const auto rows = static_cast<int32_t>(cases.size());
  const std::vector<Token> prompt = {1, 7, 7, 30, 200};
  const std::vector<Token> stop_tokens = {2, 209};

  CudaSampler sampler = CudaSampler::Create({.max_rows = rows, .vocab = kVocab}).value();
  const CudaStream stream = CudaStream::Create().value();
  const size_t row_bytes = kVocab * sizeof(float);
  const DeviceBuffer device_logits = DeviceBuffer::Allocate(rows * row_bytes, "logits").value();
  const DeviceBuffer last = DeviceBuffer::Allocate(rows * sizeof(int32_t), "tokens").value();
  const DeviceBuffer out = DeviceBuffer::Allocate(rows * sizeof(int32_t), "tokens").value();
  std::vector<Sampler> host(rows);
  StepDraws draws;
  for (uint64_t i = 0; i < kDraws; ++i) {
    draws.Clear();
    std::vector<Token> expected(rows);
    for (int32_t r = 0; r < rows; ++r) {
      const std::vector<float>& values = logits[(i + cases[r].seed) % logits.size()];
      ASSERT_EQ(cudaMemcpy(device_logits.data() + r * row_bytes, values.data(), row_bytes,
                           cudaMemcpyHostToDevice),
                cudaSuccess);
      AddDraw({.row = rows - 1 - r,
               .samples = true,
               .prompt = prompt,
               .stop_tokens = stop_tokens,
               .sampling = cases[r],
               .sample_index = i},
              draws);
      expected[r] = host[r].Sample(
          values, cases[r], {.sample_index = i, .prompt = prompt, .stop_tokens = stop_tokens});
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
      EXPECT_EQ(last_tokens[rows - 1 - r], tokens[r]);
    }
  }
}

}  // namespace
}  // namespace decant
