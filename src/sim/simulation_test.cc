#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/device_file.h"
#include "sim/named_workload.h"
#include "sim/test_device.h"

namespace decant {
namespace {

constexpr double kMilli = 1e-3;

SimulatedEngineConfig SmallEngine() {
  return {.max_batch = 2, .chunk_tokens = 8, .num_pages = 4, .page_size = 64, .keep_steps = true};
}

TEST(Simulation, WithoutAStepInFlightTimesAddUp) {
  const std::vector<SimulatedRequest> requests = {
      {.arrival = 0, .prompt_tokens = 12, .budget = 3},
      {.arrival = 4 * kMilli, .prompt_tokens = 2, .budget = 1}};
  const auto engine = Simulate(SmallEngine(), TestModel(false), requests).value();
  // Steps of 3 ms: 8 of the prompt; 4 more; the second request's prompt comes in at 6 ms.
  const std::span<const SimulatedTimes> times = engine->requests();
  EXPECT_DOUBLE_EQ(times[0].admitted, 0);
  EXPECT_DOUBLE_EQ(times[0].first_token, 6 * kMilli);
  EXPECT_DOUBLE_EQ(times[0].last_token, 12 * kMilli);
  EXPECT_EQ(times[0].tokens, 3);
  EXPECT_DOUBLE_EQ(times[1].admitted, 6 * kMilli);
  EXPECT_DOUBLE_EQ(times[1].last_token, 9 * kMilli);
  EXPECT_EQ(engine->step_count(), 4);
  EXPECT_EQ(engine->tokens_left(), 0);
  EXPECT_EQ(engine->free_pages(), 4);
}

TEST(Simulation, OneStepInFlightHidesTheHost) {
  const std::vector<SimulatedRequest> requests = {{.prompt_tokens = 8, .budget = 4}};
  const auto engine = Simulate(SmallEngine(), TestModel(true), requests).value();
  EXPECT_EQ(engine->step_count(), 4);
  EXPECT_DOUBLE_EQ(engine->requests()[0].first_token, 2 * kMilli);
  EXPECT_DOUBLE_EQ(engine->requests()[0].last_token, 8 * kMilli);
  for (const SimulatedStep& step : engine->steps()) EXPECT_DOUBLE_EQ(step.duration, 2 * kMilli);

  StepTimeParameters slow_host = TestDevice(true);
  slow_host.host_seconds = 5 * kMilli;
  const auto bound =
      Simulate(SmallEngine(), StepTimeModel::Create(slow_host, SimulatedKernel::kRows, 64).value(),
               requests)
          .value();
  // A step's tokens are taken once the next one is launched; nothing follows the last.
  const std::span<const TokenGap> gaps = bound->gaps();
  ASSERT_EQ(gaps.size(), 3);
  EXPECT_DOUBLE_EQ(gaps[0].seconds, 5 * kMilli);
  EXPECT_DOUBLE_EQ(gaps[1].seconds, 5 * kMilli);
  EXPECT_DOUBLE_EQ(gaps[2].seconds, 0);
}

TEST(Simulation, ARequestWaitsForPagesInTurn) {
  const std::vector<SimulatedRequest> requests = {
      {.prompt_tokens = 100, .budget = 60},  // 3 of 4 pages
      {.prompt_tokens = 70, .budget = 1},    // 2 pages: waits
      {.prompt_tokens = 1, .budget = 1}};    // would fit, waits behind it
  const auto engine = Simulate(SmallEngine(), TestModel(false), requests).value();
  const std::span<const SimulatedTimes> times = engine->requests();
  EXPECT_GE(times[1].admitted, times[0].last_token);
  EXPECT_GE(times[2].admitted, times[1].admitted);
}

TEST(Simulation, RunsUntilATimeAndIdlesBetweenRequests) {
  const auto engine = SimulatedEngine::Create(SmallEngine(), TestModel(false)).value();
  ASSERT_TRUE(engine->Submit({.arrival = 1, .prompt_tokens = 2, .budget = 2}).ok());
  engine->RunUntil(1.001);
  EXPECT_DOUBLE_EQ(engine->now(), 1.003);
  EXPECT_EQ(engine->running(), 1);
  engine->RunUntil(7);
  EXPECT_TRUE(engine->idle());
  ASSERT_TRUE(engine->Submit({.arrival = 7, .prompt_tokens = 2, .budget = 1}).ok());
  engine->RunToEnd();
  EXPECT_DOUBLE_EQ(engine->requests()[1].last_token, 7.003);
  const std::array<const SimulatedEngine*, 1> engines = {engine.get()};
  const SimulationSummary summary = Summarize(engines);
  EXPECT_EQ(summary.completed, 2);
  EXPECT_DOUBLE_EQ(summary.wall, 6.003);
  EXPECT_NEAR(summary.gap_max, 3 * kMilli, 1e-12);
}

TEST(Simulation, RefusesWhatCanNeverFit) {
  const std::vector<SimulatedRequest> requests = {{.prompt_tokens = 1000, .budget = 1}};
  EXPECT_EQ(Simulate(SmallEngine(), TestModel(false), requests).status().code(),
            StatusCode::kResourceExhausted);
  SimulatedEngineConfig other_pages = SmallEngine();
  other_pages.page_size = 16;
  EXPECT_EQ(SimulatedEngine::Create(other_pages, TestModel(false)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(GapQuantile, WeighsByTokens) {
  const std::vector<TokenGap> gaps = {{.seconds = 2, .tokens = 1}, {.seconds = 1, .tokens = 99}};
  EXPECT_EQ(GapQuantile(gaps, 0.5), 1);
  EXPECT_EQ(GapQuantile(gaps, 1), 2);
  EXPECT_EQ(GapQuantile({}, 0.5), 0);
}

TEST(Simulation, ChosenChunksKeepALimitOnAMeasuredDevice) {
  const StepTimeParameters h200 = ReadDevice(DECANT_SOURCE_DIR "/data/devices/h200.json").value();
  const StepTimeModel model = StepTimeModel::Create(h200, SimulatedKernel::kFlash, 256).value();
  const Workload workload = NamedWorkloadOf("mixed seed 0", 300).value();
  const std::vector<SimulatedRequest> requests = RequestsOf(workload, {});
  constexpr double kLimit = 8e-3;
  SimulatedEngineConfig config{.max_batch = 32,
                               .chunk_tokens = 2048,
                               .num_pages = 4096,
                               .page_size = 256,
                               .keep_steps = true};
  config.chunk_policy = ChunkPolicyConfig{.most = 2048, .max_step_seconds = kLimit};
  const auto engine = Simulate(config, model, requests).value();
  int64_t loaded = 0;
  int64_t over = 0;
  int32_t largest = 0;
  for (const SimulatedStep& step : engine->steps()) {
    if (step.work.prompt_tokens == 0 || ++loaded <= 50) continue;  // it learns from the first
    if (step.duration > kLimit) ++over;
    largest = std::max(largest, step.work.prompt_tokens);
  }
  ASSERT_GT(loaded, 300);
  EXPECT_LE(over * 100, loaded - 50);
  EXPECT_GT(largest, 512) << "a limit that is kept by tiny chunks is kept too dearly";

  config.chunk_policy->most = 4096;
  EXPECT_EQ(SimulatedEngine::Create(config, model).status().message(),
            "the largest chunk is 4096; allowed: at most 2048");
}

}  // namespace
}  // namespace decant
