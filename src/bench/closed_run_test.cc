#include "bench/closed_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "bench/bench_engine.h"
#include "bench/compare_case.h"

namespace decant {
namespace {

const std::vector<Token> kAlphabet = {1, 2, 3, 4, 5};

TEST(ClosedRunTest, RunsEveryBudgetToItsEndAndTimesTheLast) {
  BenchEngine engine(4, 64, {.step_time = std::chrono::microseconds(200)});
  const Workload workload = MakeWorkload(
      "mixed", {.prompt_lengths = {1, 20, 90}, .min_budget = 3, .max_budget = 30}, 12, kAlphabet);
  for (int repeat = 0; repeat < 2; ++repeat) {
    int64_t tokens = 0;
    const Expected<ClosedRun> run = RunClosed(*engine, workload, [&] { ++tokens; });
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    EXPECT_EQ(tokens, workload.budget_tokens());
    ASSERT_EQ(run->requests.size(), workload.items.size());
    double last = 0;
    for (size_t i = 0; i < run->requests.size(); ++i) {
      const RequestTimes& times = run->requests[i];
      EXPECT_EQ(times.tokens, engine.Answer(workload.items[i]));
      EXPECT_GT(times.first_token, 0);
      EXPECT_GE(times.last_token, times.first_token);
      EXPECT_EQ(times.gaps.size(), times.tokens.size() - 1);
      EXPECT_NEAR(std::accumulate(times.gaps.begin(), times.gaps.end(), times.first_token),
                  times.last_token, 1e-9);
      last = std::max(last, times.last_token);
    }
    EXPECT_DOUBLE_EQ(run->wall_seconds, last);

    int64_t decoded = 0;
    int64_t read = 0;
    double steps_seconds = 0;
    for (const StepRecord& step : run->steps) {
      decoded += step.decode_tokens;
      read += step.prompt_tokens;
      steps_seconds += step.duration;
    }
    EXPECT_EQ(read, workload.prompt_tokens()) << "only this run's steps, and all of them";
    EXPECT_EQ(decoded, workload.budget_tokens() - 12) << "the first token comes with the prompt";
    EXPECT_LE(steps_seconds, run->wall_seconds * 1.01);
    EXPECT_GE(run->wall_seconds, 200e-6 * static_cast<double>(run->steps.size()));
  }
}

TEST(ClosedRunTest, ARefusalLeavesNothingRunning) {
  BenchEngine engine(4, 64, {});
  Workload workload = MakeWorkload("w", {.prompt_lengths = {8}}, 3, kAlphabet);
  workload.items[2].budget = 5000;
  const Expected<ClosedRun> run = RunClosed(*engine, workload, [] {});
  ASSERT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("request 2 of w"), std::string::npos)
      << run.status().ToString();
  workload.items.pop_back();
  EXPECT_TRUE(RunClosed(*engine, workload, [] {}).ok());
}

TEST(ClosedRunTest, ADeviceErrorEndsTheRun) {
  BenchEngine engine(4, 64, {.failing_wait = 5});
  const Workload workload = MakeWorkload("w", {.prompt_lengths = {8}}, 3, kAlphabet);
  const Expected<ClosedRun> run = RunClosed(*engine, workload, [] {});
  ASSERT_FALSE(run.ok());
  // Requests that were accepted ended by it, and one that comes after it is refused for it.
  EXPECT_NE(run.status().message().find("the device died in step 5"), std::string::npos)
      << run.status().ToString();
}

TEST(CompareCaseTest, FindsCasesByName) {
  ASSERT_TRUE(FindCompareCase("decode8_at512").ok());
  EXPECT_EQ(FindCompareCase("decode8_at512")->rows, 8);
  const Status status = FindCompareCase("decode9").status();
  EXPECT_NE(status.message().find("prefill_512, prefill_2048"), std::string::npos);
}

TEST(CompareCaseTest, RatesFollowFromTheStepTime) {
  for (const CompareCase& compare : CompareCases()) {
    const double tokens_per_step =
        compare.prefill() ? std::min(compare.context, 512) : compare.rows;
    // A busy machine adds to each step: where it adds as much as a step takes, longer ones are
    // tried. None may be too fast.
    double share = 0;
    for (int64_t step = 6; step < 1000 && share < 0.5; step *= 2) {
      BenchEngine engine(compare.max_batch(), compare.chunk_tokens(512),
                         {.step_time = std::chrono::milliseconds(step)});
      const Expected<double> rate = RunCompareCase(*engine, compare, kAlphabet, step);
      ASSERT_TRUE(rate.ok()) << compare.name << ": " << rate.status().ToString();
      share = *rate / (tokens_per_step / (1e-3 * static_cast<double>(step)));
      EXPECT_LE(share, 1.01) << compare.name;
    }
    EXPECT_GE(share, 0.5) << compare.name;
  }
}

}  // namespace
}  // namespace decant
