#include "sim/fleet.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/plan_traffic.h"
#include "sim/test_device.h"

namespace decant {
namespace {

constexpr double kMilli = 1e-3;

/// Machines that run one request at a time; a step of theirs takes 3 ms.
FleetConfig TwoMachines(RoutingPolicy policy) {
  return {.machines = 2,
          .engine = {.max_batch = 1, .chunk_tokens = 8, .num_pages = 64, .page_size = 64},
          .policy = policy};
}

FleetRun RunOn(const FleetConfig& config, const FleetTraffic& traffic) {
  return RunFleet(config, TestModel(false), traffic, {}).value();
}

/// One of ten steps, then two of one step each, the last one 20 ms later.
const std::vector<SimulatedRequest> kOneLong = {
    {.arrival = 0, .prompt_tokens = 8, .budget = 10},
    {.arrival = 0, .prompt_tokens = 8, .budget = 1},
    {.arrival = 20 * kMilli, .prompt_tokens = 8, .budget = 1}};

TEST(Fleet, RoundRobinTakesTurnsWhateverTheLoad) {
  const FleetRun run = RunOn(TwoMachines(RoutingPolicy::kRoundRobin), {.requests = kOneLong});
  EXPECT_EQ(run.machine_of, (std::vector<int32_t>{0, 1, 0}));
  EXPECT_DOUBLE_EQ(run.machines[0]->requests()[0].last_token, 30 * kMilli);
  EXPECT_DOUBLE_EQ(run.machines[0]->requests()[1].last_token, 33 * kMilli);
  EXPECT_DOUBLE_EQ(run.machines[1]->requests()[0].last_token, 3 * kMilli);
}

TEST(Fleet, LeastLoadedPassesByTheBusyMachine) {
  const FleetRun run = RunOn(TwoMachines(RoutingPolicy::kLeastLoaded), {.requests = kOneLong});
  EXPECT_EQ(run.machine_of, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_DOUBLE_EQ(run.machines[1]->requests()[1].first_token, 23 * kMilli);
  const SimulationSummary summary = SummarizeFleet(run);
  EXPECT_EQ(summary.completed, 3);
  EXPECT_DOUBLE_EQ(summary.wall, 30 * kMilli);
}

TEST(Fleet, LeastLoadedCountsWhatWaits) {
  const std::vector<SimulatedRequest> at_once(7, {.prompt_tokens = 8, .budget = 2});
  const FleetRun run = RunOn(TwoMachines(RoutingPolicy::kLeastLoaded), {.requests = at_once});
  EXPECT_EQ(run.machine_of, (std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0}));
}

TEST(Fleet, TheRouterKnowsNoStepBeforeItsEnd) {
  // The step of the first request, under way when the second comes, would leave machine 0 free.
  const std::vector<SimulatedRequest> requests = {
      {.arrival = 0, .prompt_tokens = 8, .budget = 1},
      {.arrival = 2 * kMilli, .prompt_tokens = 8, .budget = 1},
      {.arrival = 4 * kMilli, .prompt_tokens = 8, .budget = 1}};
  const FleetRun run = RunOn(TwoMachines(RoutingPolicy::kLeastLoaded), {.requests = requests});
  EXPECT_EQ(run.machine_of, (std::vector<int32_t>{0, 1, 0}));
}

TEST(Fleet, CacheAwareStaysUntilTheFleetIsOutOfBalance) {
  const std::vector<int32_t> conversations = {0, 1, 0};
  FleetConfig config = TwoMachines(RoutingPolicy::kCacheAware);
  const FleetTraffic traffic{.requests = kOneLong, .conversations = conversations};
  const FleetRun stays = RunOn(config, traffic);
  EXPECT_EQ(stays.machine_of, (std::vector<int32_t>{0, 1, 0}));
  EXPECT_EQ(stays.continued, 1);
  EXPECT_EQ(stays.kept, 1);

  config.balance = {.requests = 0, .ratio = 1};
  const FleetRun moves = RunOn(config, traffic);
  EXPECT_EQ(moves.machine_of, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(moves.continued, 1);
  EXPECT_EQ(moves.kept, 0);
}

TEST(Fleet, CacheAwareSendsNewConversationsToTheLeastLoaded) {
  const std::vector<int32_t> conversations = {0, 1, 2};
  const FleetRun run = RunOn(TwoMachines(RoutingPolicy::kCacheAware),
                             {.requests = kOneLong, .conversations = conversations});
  EXPECT_EQ(run.machine_of, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(run.continued, 0);
}

TEST(Fleet, SpeedupBringsRequestsSooner) {
  const FleetRun run =
      RunOn(TwoMachines(RoutingPolicy::kLeastLoaded), {.requests = kOneLong, .speedup = 20});
  EXPECT_DOUBLE_EQ(run.machines[0]->requests()[1].arrival, 1 * kMilli);
}

/// Every policy, and any number of threads, serves each request once, on the machine it says.
TEST(Fleet, ResultsDoNotDependOnThreads) {
  const PlanTraffic traffic =
      DrawTraffic({.prompt_lengths = {4, 40}, .min_budget = 1, .max_budget = 9}, 600, 3, 4096);
  const std::vector<int32_t> conversations = DrawConversations(600, 4, 3);
  for (const RoutingPolicy policy :
       {RoutingPolicy::kRoundRobin, RoutingPolicy::kLeastLoaded, RoutingPolicy::kCacheAware}) {
    FleetConfig config = TwoMachines(policy);
    config.machines = 5;
    config.engine.max_batch = 4;
    const FleetTraffic offered{
        .requests = traffic.requests, .conversations = conversations, .speedup = 300};
    const FleetRun one = RunOn(config, offered);
    config.threads = 4;
    const FleetRun four = RunOn(config, offered);
    EXPECT_EQ(one.machine_of, four.machine_of);
    EXPECT_EQ(SummarizeFleet(one).latency_p99, SummarizeFleet(four).latency_p99);
    EXPECT_EQ(SummarizeFleet(one).gap_p99, SummarizeFleet(four).gap_p99);
    std::vector<size_t> next(5, 0);
    for (size_t i = 0; i < offered.requests.size(); ++i) {
      const auto machine = static_cast<size_t>(one.machine_of[i]);
      const SimulatedTimes& times = one.machines[machine]->requests()[next[machine]++];
      EXPECT_EQ(times.arrival, offered.requests[i].arrival / 300);
      EXPECT_EQ(times.tokens, offered.requests[i].budget);
    }
  }
}

TEST(Fleet, RefusesWhatItCannotRun) {
  FleetConfig config = TwoMachines(RoutingPolicy::kRoundRobin);
  const std::vector<int32_t> too_few = {0};
  for (const FleetTraffic& traffic : {FleetTraffic{.requests = kOneLong, .conversations = too_few},
                                      FleetTraffic{.requests = kOneLong, .speedup = 0}}) {
    EXPECT_EQ(RunFleet(config, TestModel(false), traffic, {}).status().code(),
              StatusCode::kInvalidArgument);
  }
  const std::vector<SimulatedRequest> too_long = {{.prompt_tokens = 5000, .budget = 1}};
  EXPECT_EQ(RunFleet(config, TestModel(false), {.requests = too_long}, {}).status().code(),
            StatusCode::kResourceExhausted);
  config.machines = 0;
  EXPECT_EQ(RunFleet(config, TestModel(false), {.requests = kOneLong}, {}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RoutingPolicy, IsFoundByItsName) {
  for (const RoutingPolicy policy :
       {RoutingPolicy::kRoundRobin, RoutingPolicy::kLeastLoaded, RoutingPolicy::kCacheAware}) {
    EXPECT_EQ(FindRoutingPolicy(RoutingPolicyName(policy)).value(), policy);
  }
  EXPECT_NE(FindRoutingPolicy("random").status().message().find("least-loaded"), std::string::npos);
}

}  // namespace
}  // namespace decant
