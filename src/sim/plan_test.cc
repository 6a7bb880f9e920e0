#include "sim/plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/test_device.h"

namespace decant {
namespace {

constexpr double kMilli = 1e-3;

/// Machines that run one request at a time. A request of one step takes 3 ms, so each machine
/// serves 333 a second.
FleetConfig OneAtATime(int32_t machines, RoutingPolicy policy) {
  return {.machines = machines,
          .engine = {.max_batch = 1, .chunk_tokens = 8, .num_pages = 64, .page_size = 64},
          .policy = policy};
}

/// One a second, evenly.
PlanTraffic Even(size_t count) {
  PlanTraffic traffic{.distinct = count};
  for (size_t i = 0; i < count; ++i) {
    traffic.requests.push_back(
        {.arrival = static_cast<double>(i), .prompt_tokens = 8, .budget = 1});
  }
  return traffic;
}

PlanOptions FirstTokenWithin(double seconds) {
  return {.target = {.first_token_p99 = seconds}, .precision = 0.001};
}

TEST(Plan, FindsTheRateThatEvenTrafficCanHave) {
  for (const RoutingPolicy policy : {RoutingPolicy::kRoundRobin, RoutingPolicy::kLeastLoaded}) {
    const PlanAnswer answer = PlanHighestRate(OneAtATime(2, policy), TestModel(false), Even(2000),
                                              FirstTokenWithin(3.01 * kMilli))
                                  .value();
    ASSERT_TRUE(answer.held && answer.beyond);
    EXPECT_NEAR(answer.held->rate, 2000 / 3.0, 2);
    EXPECT_GT(answer.beyond->rate, 2000 / 3.0);
    EXPECT_LE(answer.held->summary.first_token_p99, 3.01 * kMilli);
    EXPECT_GT(answer.beyond->summary.first_token_p99, 3.01 * kMilli);
  }
}

TEST(Plan, FindsTheLeastMachines) {
  // 1,000 a second: three machines would need 3 ms of every 3 ms and hold it; two do not.
  const double speedup = 999 / Even(2000).Rate();
  const PlanAnswer answer =
      PlanLeastMachines(OneAtATime(1, RoutingPolicy::kRoundRobin), TestModel(false), Even(2000),
                        speedup, FirstTokenWithin(3.5 * kMilli))
          .value();
  ASSERT_TRUE(answer.held && answer.beyond);
  EXPECT_EQ(answer.held->machines, 3);
  EXPECT_EQ(answer.beyond->machines, 2);
  EXPECT_NEAR(answer.held->rate, 999, 1e-9);
  EXPECT_GE(answer.runs, 2);
}

TEST(Plan, NoFleetHoldsWhatARequestAloneMisses) {
  const PlanOptions options = FirstTokenWithin(2 * kMilli);
  const FleetConfig fleet = OneAtATime(1, RoutingPolicy::kRoundRobin);
  for (const PlanAnswer& answer :
       {PlanHighestRate(fleet, TestModel(false), Even(20), options).value(),
        PlanLeastMachines(fleet, TestModel(false), Even(20), 1, options).value()}) {
    EXPECT_FALSE(answer.held);
    EXPECT_EQ(answer.runs, 0);
    EXPECT_NEAR(answer.alone.first_token_p99, 3 * kMilli, 1e-12);
  }
}

TEST(Plan, SaysWhenTheMostMachinesAreTooFew) {
  PlanOptions options = FirstTokenWithin(4 * kMilli);
  options.most_machines = 3;
  const PlanAnswer answer = PlanLeastMachines(OneAtATime(1, RoutingPolicy::kLeastLoaded),
                                              TestModel(false), Even(2000), 5000, options)
                                .value();
  EXPECT_FALSE(answer.held);
  ASSERT_TRUE(answer.beyond);
  EXPECT_EQ(answer.beyond->machines, 3);
}

TEST(Plan, RefusesTrafficWithoutARate) {
  EXPECT_EQ(PlanHighestRate(OneAtATime(1, RoutingPolicy::kRoundRobin), TestModel(false), Even(1),
                            FirstTokenWithin(1))
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST(PlanTarget, NamesWhatIsMissed) {
  const PlanTarget both{.first_token_p99 = 1, .gap_p99 = 0.05};
  EXPECT_EQ(both.Missed({.first_token_p99 = 1, .gap_p99 = 0.05}), "");
  EXPECT_EQ(both.Missed({.first_token_p99 = 1.1, .gap_p99 = 0.05}), "first token");
  EXPECT_EQ(both.Missed({.first_token_p99 = 1, .gap_p99 = 0.06}), "token gap");
  EXPECT_EQ(both.Missed({.first_token_p99 = 2, .gap_p99 = 0.06}), "both");
  EXPECT_TRUE(PlanTarget{.gap_p99 = 1}.HeldBy({.first_token_p99 = 100}));
}

}  // namespace
}  // namespace decant
