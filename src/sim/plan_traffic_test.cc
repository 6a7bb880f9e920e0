#include "sim/plan_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "bench/arrivals.h"

namespace decant {
namespace {

constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();

const std::vector<TraceRequest> kTrace = {{.arrival = 5, .prompt_tokens = 10, .output_tokens = 1},
                                          {.arrival = 6, .prompt_tokens = 200, .output_tokens = 2},
                                          {.arrival = 9, .prompt_tokens = 30, .output_tokens = 3}};

TEST(PlanTraffic, ATraceIsRepeatedAtItsOwnPace) {
  const PlanTraffic traffic = RepeatTrace(kTrace, 2, kAnyLength);
  ASSERT_EQ(traffic.requests.size(), 6);
  EXPECT_EQ(traffic.distinct, 3);
  // Requests come every 2 seconds on average, so the second round begins 2 after the last.
  const std::vector<double> arrivals = {0, 1, 4, 6, 7, 10};
  for (size_t i = 0; i < arrivals.size(); ++i) {
    EXPECT_DOUBLE_EQ(traffic.requests[i].arrival, arrivals[i]);
    EXPECT_EQ(traffic.requests[i].prompt_tokens, kTrace[i % 3].prompt_tokens);
    EXPECT_EQ(traffic.requests[i].budget, kTrace[i % 3].output_tokens);
  }
  EXPECT_DOUBLE_EQ(traffic.Rate(), 0.6);
}

TEST(PlanTraffic, WhatNoMachineHoldsIsLeftOutAndCounted) {
  const PlanTraffic traffic = RepeatTrace(kTrace, 2, 100);
  EXPECT_EQ(traffic.requests.size(), 4);
  EXPECT_EQ(traffic.left_out, 2);
  EXPECT_EQ(traffic.distinct, 2);
}

TEST(PlanTraffic, DrawnRequestsAreThoseOfBenchArrivals) {
  const WorkloadOptions options{.seed = 7};
  const std::vector<Token> alphabet = {0};
  const Traffic bench = PoissonTraffic(MakeWorkload("mixed", options, 50, alphabet), 9, 1);
  const PlanTraffic plan = DrawTraffic(options, 50, 9, kAnyLength);
  ASSERT_EQ(plan.requests.size(), 50);
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(plan.requests[i].arrival, bench.arrivals[i]);
    EXPECT_EQ(plan.requests[i].prompt_tokens, std::ssize(bench.workload.items[i].prompt));
    EXPECT_EQ(plan.requests[i].budget, bench.workload.items[i].budget);
  }
}

TEST(PlanTraffic, ConversationsHaveTheTurnsAskedFor) {
  const std::vector<int32_t> of = DrawConversations(10000, 5, 1);
  std::vector<int32_t> turns(2000, 0);
  for (const int32_t conversation : of) ++turns.at(static_cast<size_t>(conversation));
  // Draws of a Poisson distribution with mean 5: 0.7% of the conversations have none.
  EXPECT_NEAR(static_cast<double>(std::ranges::count(turns, 0)), 13, 15);
  EXPECT_LT(std::ranges::max(turns), 20);
  for (const int32_t conversation : DrawConversations(3, 100, 1)) EXPECT_EQ(conversation, 0);
}

}  // namespace
}  // namespace decant
