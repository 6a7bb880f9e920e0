// An engine that chooses its chunks.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/completion.h"
#include "engine/test_engine.h"

namespace decant {
namespace {

GenerateRequest LongRequest(uint64_t seed) {
  GenerateRequest request{.max_new_tokens = 5};
  const CounterRng rng(seed);
  for (uint64_t i = 0; i < 400; ++i) request.prompt.push_back(static_cast<Token>(rng.Below(i, 14)));
  request.sampling = {.temperature = 1.0F, .seed = seed};
  request.ignore_end_of_text = true;
  return request;
}

struct Served {
  std::vector<StepRecord> steps;
  EngineStats stats;
  std::string log;
};

/// Three long prompts, one after another, in chunks of `policy`; what they get must be right.
Served Serve(const std::optional<ChunkPolicyConfig>& policy) {
  TestEngine engine({.num_pages = 400,
                     .chunk_tokens = 64,
                     .chunk_policy = policy,
                     .runner = {.step_time = std::chrono::microseconds(100)}});
  Served served;
  ::testing::internal::CaptureStderr();
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const GenerateRequest request = LongRequest(seed);
    const Completion completion = SubmitAndCollect(*engine, request).value().get();
    EXPECT_EQ(completion.tokens, engine.Reference(request).tokens);
  }
  engine->Drain();
  engine->Stop();
  served.log = ::testing::internal::GetCapturedStderr();
  served.steps = engine->Steps();
  served.stats = engine->Stats();
  return served;
}

int32_t LargestChunk(const Served& served) {
  return std::ranges::max_element(served.steps, {}, &StepRecord::prompt_tokens)->prompt_tokens;
}

TEST(EngineChunkTest, WithoutAPolicyChunksAreConstant) {
  const Served served = Serve(std::nullopt);
  EXPECT_EQ(LargestChunk(served), 64);
  EXPECT_EQ(served.stats.chunk_tokens, 64);
}

TEST(EngineChunkTest, ChunksGrowUpToTheMostWhileStepsStayBelow) {
  const Served served = Serve(ChunkPolicyConfig{.most = 48, .max_step_seconds = 1000});
  EXPECT_EQ(served.steps.front().prompt_tokens, ChunkPolicy::kGrain);
  EXPECT_EQ(LargestChunk(served), 48);
  EXPECT_EQ(served.stats.chunk_tokens, 48);
  EXPECT_EQ(served.log, "");
}

TEST(EngineChunkTest, SaysOnceThatTheLimitCannotBeKeptAndGoesOn) {
  const Served served = Serve(ChunkPolicyConfig{.most = 64, .max_step_seconds = 1e-6});
  EXPECT_EQ(LargestChunk(served), ChunkPolicy::kGrain);
  EXPECT_EQ(served.stats.chunk_tokens, ChunkPolicy::kGrain);
  const size_t said = served.log.find("loaded steps cannot be kept under 0.001 ms");
  ASSERT_NE(said, std::string::npos) << served.log;
  EXPECT_EQ(served.log.find("cannot be kept", said + 50), std::string::npos) << served.log;
}

TEST(EngineChunkTest, CreateRefusesAPolicyThatDoesNotFit) {
  FakeForward forward(4, 4, 1, 10);
  const auto refusal = [&](const ChunkPolicyConfig& policy) {
    EngineConfig config{.scheduler = {.chunk_tokens = 64, .limits = {.max_model_len = 8}},
                        .chunk_policy = policy,
                        .num_pages = 4,
                        .page_size = 4};
    const auto runner_options = FakeStepRunner::Options{};
    return Engine::Create(config, std::make_unique<FakeStepRunner>(forward, runner_options),
                          nullptr)
        .status()
        .message();
  };
  EXPECT_EQ(refusal({.most = 80}), "the largest chunk is 80; allowed: at most 64 (chunk_tokens)");
  EXPECT_EQ(refusal({.most = 40}), "the largest chunk is 40; allowed: multiples of 16");
  EXPECT_EQ(refusal({.most = 64, .max_step_seconds = -1}),
            "a step may take -1 s; allowed: above 0");
}

}  // namespace
}  // namespace decant
