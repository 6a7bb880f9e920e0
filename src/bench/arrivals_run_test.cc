#include "bench/arrivals_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/interrupt.h"
#include "bench/bench_engine.h"

namespace decant {
namespace {

using std::chrono::microseconds;

const std::vector<Token> kAlphabet = {1, 2, 3, 4, 5};

Workload MixedWorkload(int32_t count) {
  return MakeWorkload("mixed", {.prompt_lengths = {1, 20, 90}, .min_budget = 1, .max_budget = 12},
                      count, kAlphabet);
}

TEST(ArrivalsRunTest, EveryRequestCompletesInItsOwnTime) {
  BenchEngine engine(4, 64, {.step_time = microseconds(200)});
  const Workload workload = MixedWorkload(40);
  std::vector<std::vector<Token>> tokens;
  for (const double rate : {150.0, 1e6}) {
    const Traffic traffic = PoissonTraffic(workload, 5, rate);
    int ended = 0;
    const Expected<ArrivalsRun> run = RunArrivals(*engine, traffic, [&] { ++ended; });
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    EXPECT_EQ(ended, 40);
    ASSERT_EQ(run->requests.size(), 40U);
    for (size_t i = 0; i < run->requests.size(); ++i) {
      const RequestRecord& request = run->requests[i];
      EXPECT_EQ(request.arrival, traffic.arrivals[i]);
      EXPECT_GE(request.delivered, request.arrival - 1e-8) << "times are whole nanoseconds";
      EXPECT_GE(request.admitted, request.delivered);
      EXPECT_GT(request.first_token(), request.admitted);
      EXPECT_TRUE(std::ranges::is_sorted(request.token_times));
      EXPECT_EQ(std::ssize(request.tokens), workload.items[i].budget);
      EXPECT_EQ(request.token_times.size(), request.tokens.size());
      // The same request gets the same tokens whatever runs beside it.
      if (tokens.size() == i) tokens.push_back(request.tokens);
      EXPECT_EQ(request.tokens, tokens[i]);
    }
    int64_t read = 0;
    int64_t decoded = 0;
    for (const StepRecord& step : run->steps) {
      read += step.prompt_tokens;
      decoded += step.decode_tokens;
    }
    EXPECT_EQ(read, workload.prompt_tokens()) << "only this run's steps, and all of them";
    EXPECT_EQ(decoded, workload.budget_tokens() - 40) << "the first token comes with the prompt";
  }
}

TEST(ArrivalsRunTest, WaitsGrowPastSaturation) {
  const Workload workload =
      MakeWorkload("w", {.prompt_lengths = {8}, .min_budget = 10, .max_budget = 10}, 40, kAlphabet);
  BenchEngine engine(2, 64, {.step_time = microseconds(500)});
  // Two rows of ten steps of half a millisecond serve 400 a second at best.
  const auto summarize = [&](double rate) {
    const Traffic traffic = PoissonTraffic(workload, 1, rate);
    return SummarizeArrivals(traffic, RunArrivals(*engine, traffic, [] {}).value());
  };
  const ArrivalsSummary flooded = summarize(40000);
  EXPECT_GT(flooded.queue.median, 10e-3) << "twenty requests stand before the median one";
  EXPECT_LT(flooded.served_rate, 400);
  EXPECT_GT(flooded.latency.median, flooded.queue.median);
  EXPECT_EQ(flooded.pages.max, 2);
  // A busy machine only makes requests wait longer: the best of a few tries counts.
  double idle = flooded.queue.median;
  for (int attempt = 0; attempt < 20 && idle >= 10e-3 / 4; ++attempt) {
    idle = std::min(idle, summarize(40).queue.median);
  }
  EXPECT_LT(idle, 10e-3 / 4);
}

TEST(ArrivalsRunTest, ARefusalLeavesNothingRunning) {
  BenchEngine engine(4, 64, {});
  Workload workload = MixedWorkload(3);
  workload.items[2].budget = 5000;
  const Expected<ArrivalsRun> run = RunArrivals(*engine, PoissonTraffic(workload, 1, 1e3), [] {});
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("request 2 of mixed"), std::string::npos)
      << run.status().ToString();
  workload.items.pop_back();
  EXPECT_TRUE(RunArrivals(*engine, PoissonTraffic(workload, 1, 1e3), [] {}).ok());
}

TEST(ArrivalsRunTest, ADeviceErrorEndsTheRunAtOnce) {
  BenchEngine engine(4, 64, {.failing_wait = 2});
  const Traffic traffic = PoissonTraffic(MixedWorkload(50), 1, 0.05);
  const Stopwatch watch;
  const Expected<ArrivalsRun> run = RunArrivals(*engine, traffic, [] {});
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("the device died in step 2"), std::string::npos)
      << run.status().ToString();
  EXPECT_LT(watch.Seconds(), traffic.arrivals.back() / 2);
}

TEST(ArrivalsRunTest, AnInterruptCancelsWhatRuns) {
  CatchInterrupts();
  BenchEngine engine(2, 64, {.step_time = microseconds(5000)});
  const Workload workload = MixedWorkload(500);
  bool raised = false;
  const Expected<ArrivalsRun> run = RunArrivals(*engine, PoissonTraffic(workload, 1, 1e4), [&] {
    if (std::exchange(raised, true)) return;
    // Once all are there: what is left takes ten seconds, and the run need only wake up before.
    while (engine->Stats().accepted < workload.items.size()) std::this_thread::yield();
    std::raise(SIGINT);
  });
  ForgetInterrupt();
  EXPECT_EQ(run.status().code(), StatusCode::kCancelled);
  engine->Drain();
  engine->Stop();
  const EngineStats stats = engine->Stats();
  EXPECT_GT(stats.count(FinishReason::kCancelled), 0);
  EXPECT_LT(stats.generated_tokens, static_cast<uint64_t>(workload.budget_tokens()));
  EXPECT_EQ(stats.pages_in_use, 0);
}

TEST(ArrivalsSummaryTest, FollowsFromTheRecords) {
  const Traffic traffic = {.workload = MakeWorkload("w", {.prompt_lengths = {7}}, 2, kAlphabet)};
  ArrivalsRun run;
  run.requests = {
      {.arrival = 0, .delivered = 0.25, .admitted = 1, .tokens = {1, 2}, .token_times = {2, 8}},
      {.arrival = 2, .delivered = 2, .admitted = 5, .tokens = {3}, .token_times = {6}}};
  run.steps = {{.pages_in_use = 1}, {.pages_in_use = 5}, {.pages_in_use = 3}};
  const ArrivalsSummary summary = SummarizeArrivals(traffic, run);
  EXPECT_EQ(summary.completed, 2);
  EXPECT_EQ(summary.prompt_tokens, 14);
  EXPECT_EQ(summary.generated_tokens, 3);
  EXPECT_DOUBLE_EQ(summary.wall, 8) << "to the last completion, which is not the last arrival's";
  EXPECT_DOUBLE_EQ(summary.served_rate, 0.25);
  EXPECT_DOUBLE_EQ(summary.generated_rate, 0.375);
  EXPECT_DOUBLE_EQ(summary.queue.median, 2);
  EXPECT_DOUBLE_EQ(summary.queue.max, 3);
  EXPECT_DOUBLE_EQ(summary.first_token.median, 3);
  ASSERT_TRUE(summary.gap);
  EXPECT_DOUBLE_EQ(summary.gap->max, 6);
  EXPECT_DOUBLE_EQ(summary.latency.median, 6);
  EXPECT_DOUBLE_EQ(summary.latency.p99, 7.96);
  EXPECT_DOUBLE_EQ(summary.pages.median, 3);
  EXPECT_DOUBLE_EQ(summary.pages.max, 5);
  EXPECT_DOUBLE_EQ(summary.late, 0.25);
  run.requests[0].token_times = {8};
  run.requests[0].tokens = {1};
  EXPECT_FALSE(SummarizeArrivals(traffic, run).gap);
}

}  // namespace
}  // namespace decant
