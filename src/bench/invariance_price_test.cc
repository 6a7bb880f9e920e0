#include "bench/invariance_price.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "bench/bench_engine.h"

namespace decant {
namespace {

TEST(InvariancePriceTest, ARatioAboveOneIsAPriceWhateverIsMeasured) {
  const PathFigures fastest = {2, 100, 1, 1};
  const PathFigures invariant = {3, 80, 1.5, 1};
  EXPECT_DOUBLE_EQ(PriceRatio(PriceMeasure::kClosed, invariant, fastest), 1.5);
  EXPECT_DOUBLE_EQ(PriceRatio(PriceMeasure::kServed, invariant, fastest), 1.25);
  EXPECT_DOUBLE_EQ(PriceRatio(PriceMeasure::kGap, invariant, fastest), 1.5);
  EXPECT_DOUBLE_EQ(PriceRatio(PriceMeasure::kPureDecode, invariant, fastest), 1);
}

TEST(InvariancePriceTest, ThePureDecodeStepIsThatOfTheLargestBatch) {
  const std::vector<StepRecord> steps = {
      {.prompt_tokens = 5, .decode_tokens = 9, .rows = 10, .duration = 9},
      {.decode_tokens = 1, .rows = 1, .duration = 0.1},
      {.decode_tokens = 4, .rows = 4, .duration = 3},
      {.decode_tokens = 4, .rows = 4, .duration = 1},
      {.decode_tokens = 4, .rows = 4, .duration = 2}};
  EXPECT_EQ(FullPureDecodeMedian(steps), 2);
  EXPECT_TRUE(std::isnan(FullPureDecodeMedian(std::span(steps).first(1))));
}

TEST(InvariancePriceTest, MeasuresAnEngine) {
  BenchEngine engine(4, 16, {.step_time = std::chrono::microseconds(500)});
  const std::vector<Token> alphabet = {5, 6, 7};
  const WorkloadOptions options{.prompt_lengths = {8, 30}, .min_budget = 3, .max_budget = 6};
  const Workload workload = MakeWorkload("test", options, 8, alphabet);
  const PriceLoad load{
      .closed = workload, .arrivals = PoissonTraffic(workload, 1, 1000), .runs = 2};
  int64_t tokens = 0;
  int32_t ends = 0;
  const Expected<PathFigures> figures = MeasurePath(
      *engine, load, [&] { ++tokens; }, [&] { ++ends; });
  ASSERT_TRUE(figures.ok()) << figures.status().ToString();
  EXPECT_EQ(tokens, 3 * workload.budget_tokens()) << "a run that does not count, and two";
  EXPECT_EQ(ends, 8);
  const auto of = [&](PriceMeasure measure) { return (*figures)[static_cast<size_t>(measure)]; };
  // A step takes half a millisecond at least, and 8 requests in 4 rows a few steps.
  EXPECT_GT(of(PriceMeasure::kClosed), 3e-3);
  EXPECT_GE(of(PriceMeasure::kPureDecode), 0.5);
  EXPECT_GE(of(PriceMeasure::kGap), 0.5);
  EXPECT_GT(of(PriceMeasure::kServed), 0);
  EXPECT_LT(of(PriceMeasure::kServed), 8 / 3e-3);
}

}  // namespace
}  // namespace decant
