// The policy around the real scheduler in virtual time, one step in flight, under random step
// times.

#include "sched/chunk_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/sanitized.h"
#include "sched/scheduler.h"

namespace decant {
namespace {

constexpr uint64_t kDevices = kSanitized ? 2 : 8;
constexpr int32_t kMost = 2048;
constexpr size_t kLearning = 100;  // loaded steps, of over a thousand

/// How long a step takes: milliseconds of a GPU or seconds of a CPU, whatever `unit` says.
struct Device {
  uint64_t seed = 0;
  double unit = 1e-3;
  double step = 1;          ///< Every step.
  double level_tokens = 0;  ///< Fewer tokens take as long: the weights are being read.
  double token = 0.004;     ///< Each token.
  double position = 1e-5;   ///< Each position.
  double pair = 1e-7;       ///< Each pair of a query and a key.
  double furthest = 0;      ///< Each position that the furthest chunk reads.
  int32_t stair = 1;        ///< Tokens count in multiples of it.
  double noise = 0;         ///< Of a step's time, one standard deviation.
  double stalls = 0;        ///< Share of steps that take three times as long.
  uint64_t slower_from = std::numeric_limits<uint64_t>::max();  ///< This step on, by `slower`.
  double slower = 1;

  double Seconds(const StepLoad& load, uint64_t number) const {
    const double tokens = std::ceil(static_cast<double>(load.tokens()) / stair) * stair;
    double seconds = step + token * std::max(tokens, level_tokens) +
                     position * static_cast<double>(load.positions()) +
                     furthest * load.longest_prompt_context + pair * load.prompt_pairs;
    const CounterRng rng(CounterRng(seed).Bits(number));
    double normal = -6;  // the sum of twelve uniform numbers less six
    for (uint64_t i = 0; i < 12; ++i) normal += rng.Uniform(i);
    seconds *= std::max(0.5, 1 + noise * normal);
    if (rng.Uniform(12) < stalls) seconds *= 3;
    if (number >= slower_from) seconds *= slower;
    return seconds * unit;
  }
};

struct Outcome {
  double seconds = 0;  ///< Of the loaded steps together.
  double tokens = 0;   ///< That they computed.
  std::vector<double> loaded{};
  std::vector<int32_t> chunks{};  ///< Prompt tokens of each loaded step.
  int32_t largest = 0;
  bool out_of_reach = false;

  double rate() const { return tokens / seconds; }
  double ShareOver(double most, size_t from) const {
    const auto over = std::count_if(loaded.begin() + static_cast<std::ptrdiff_t>(from),
                                    loaded.end(), [&](double s) { return !(s <= most); });
    return static_cast<double>(over) / static_cast<double>(loaded.size() - from);
  }
};

/// Serves the same mixed requests in chunks that `policy` chooses, or in constant ones.
Outcome Serve(const Device& device, ChunkPolicy* policy, int32_t constant, int32_t requests = 400) {
  PagePool pool(4096, 64);
  Scheduler scheduler({.max_batch = 16, .chunk_tokens = kMost, .limits = {.max_model_len = 8192}},
                      pool);
  const CounterRng rng(device.seed + 1);
  for (int32_t i = 0; i < requests; ++i) {
    Request request{.id = static_cast<RequestId>(i)};
    const uint64_t draw = 2 * static_cast<uint64_t>(i);
    request.prompt.resize(size_t{16} << rng.Below(draw, 8));  // 16 to 2048
    request.max_new_tokens = 16 + static_cast<int32_t>(rng.Below(draw + 1, 100));
    EXPECT_TRUE(scheduler.Submit(std::move(request)).ok());
  }
  struct Flight {
    const StepPlan* plan;
    StepLoad load;
  };
  std::vector<Flight> flights;
  Outcome outcome;
  while (!scheduler.idle()) {
    const int32_t chunk = policy != nullptr ? policy->Choose(scheduler.Outlook()) : constant;
    const StepPlan& plan = scheduler.Next(chunk);
    const bool one_in_flight = !flights.empty();
    if (!plan.empty()) flights.push_back({&plan, LoadOf(plan)});
    if (!one_in_flight) continue;
    const Flight flight = flights.front();
    flights.erase(flights.begin());
    const double seconds = device.Seconds(flight.load, flight.plan->step);
    if (flight.load.prompt_tokens > 0) {
      outcome.seconds += seconds;
      outcome.tokens += flight.load.tokens();
      outcome.loaded.push_back(seconds);
      outcome.chunks.push_back(flight.load.prompt_tokens);
      outcome.largest = std::max(outcome.largest, flight.load.prompt_tokens);
    }
    if (policy != nullptr) policy->Observe(flight.load, seconds);
    StepResult result{.step = flight.plan->step};
    for (const PlannedRow& row : flight.plan->rows) {
      if (row.samples) result.tokens.push_back({.request = row.request, .row = row.row});
    }
    scheduler.Commit(result);
  }
  outcome.out_of_reach = policy != nullptr && policy->out_of_reach();
  return outcome;
}

double Quantile(std::vector<double> values, double q) {
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, place);
  return *place;
}

/// A device of `seed`, none like another.
Device Draw(uint64_t seed) {
  const CounterRng rng(seed);
  const auto between = [&](uint64_t draw, double low, double high) {
    return low + (high - low) * rng.Uniform(draw);
  };
  Device device{.seed = seed};
  device.unit = seed % 2 == 0 ? 1e-3 : 0.3;
  device.step = between(0, 0.2, 3);
  device.token = between(1, 0.001, 0.02);
  device.position = between(2, 0, 3e-5);
  device.pair = between(3, 0, 1e-6);
  device.furthest = between(4, 0, 5e-4);
  return device;
}

/// A limit that chunks of about `kept` keep, and the highest rate of constant chunks that keep it.
struct Yardstick {
  double limit = 0;
  double rate = 0;
};

Yardstick Measure(const Device& device, int32_t kept) {
  Yardstick yardstick{.limit = 1.02 * Quantile(Serve(device, nullptr, kept).loaded, 0.992)};
  for (const double share : {0.5, 0.75, 0.9, 1.0, 1.1, 1.25}) {
    const auto chunk = std::min(kMost, static_cast<int32_t>(kept * share) / 16 * 16);
    const Outcome outcome = Serve(device, nullptr, chunk);
    if (!(outcome.ShareOver(yardstick.limit, 0) <= 0.01)) continue;
    yardstick.rate = std::max(yardstick.rate, outcome.rate());
  }
  return yardstick;
}

/// At most one loaded step in a hundred takes longer than the limit, and loaded steps compute at
/// least nine tenths of the tokens a second that they do in the best constant chunks that keep it.
void ExpectKeeps(const Device& device, int32_t kept, const std::string& what) {
  const Yardstick yardstick = Measure(device, kept);
  ASSERT_GT(yardstick.rate, 0) << what;
  ChunkPolicy policy({.most = kMost, .max_step_seconds = yardstick.limit});
  const Outcome outcome = Serve(device, &policy, 0);
  ASSERT_GT(outcome.loaded.size(), 3 * kLearning) << what;
  EXPECT_LE(outcome.ShareOver(yardstick.limit, kLearning), 0.01) << what;
  EXPECT_GE(outcome.rate(), 0.9 * yardstick.rate) << what;
  EXPECT_FALSE(outcome.out_of_reach) << what;
}

TEST(ChunkPolicyTest, KeepsAnyDevicesLimitAtNearlyTheBestConstantChunksRate) {
  for (uint64_t seed = 0; seed < kDevices; ++seed) {
    const int32_t kept = 16 * (8 + static_cast<int32_t>(CounterRng(seed).Below(9, 24)));
    Device device = Draw(seed);
    ExpectKeeps(device, kept, fmt::format("linear {}", seed));
    device.noise = 0.03;
    device.stalls = 0.002;
    ExpectKeeps(device, kept, fmt::format("noisy {}", seed));
    device = Draw(seed);
    device.level_tokens = 150;
    device.noise = 0.01;
    ExpectKeeps(device, kept, fmt::format("level, then rising {}", seed));
    device.level_tokens = 0;
    device.stair = 32;
    ExpectKeeps(device, kept, fmt::format("stairs {}", seed));
  }
}

TEST(ChunkPolicyTest, LearnsAgainWhenTheDeviceChanges) {
  for (const double slower : {1.5, 0.6}) {
    Device device = Draw(3);
    device.noise = 0.01;
    device.slower_from = 300;
    device.slower = slower;
    const double limit = device.unit * (device.step + device.token * 400);
    ChunkPolicy policy({.most = kMost, .max_step_seconds = limit});
    const Outcome outcome = Serve(device, &policy, 0);
    ASSERT_GT(outcome.loaded.size(), 500U);
    EXPECT_LE(outcome.ShareOver(limit, 400), 0.01) << slower;
    // As large chunks at the end as the limit allows on this device.
    const std::vector<double> after(outcome.loaded.begin() + 400, outcome.loaded.end());
    EXPECT_GT(Quantile(after, 0.75), 0.85 * limit) << slower;
  }
}

TEST(ChunkPolicyTest, PromptsGoOnWhereTheLimitCannotBeKept) {
  const Device device = Draw(4);
  ChunkPolicy policy({.most = kMost, .max_step_seconds = 1e-9});
  const Outcome outcome = Serve(device, &policy, 0, 20);
  EXPECT_TRUE(outcome.out_of_reach);
  EXPECT_EQ(outcome.largest, ChunkPolicy::kGrain);
}

TEST(ChunkPolicyTest, ASlowStartIsForgotten) {
  Device device = Draw(6);
  device.slower_from = 0;
  const double limit = device.unit * (device.step + device.token * 300);
  ChunkPolicy policy({.most = kMost, .max_step_seconds = limit});
  const StepOutlook outlook{.decode_tokens = 1, .decode_positions = 1, .prompts = {{0, 4000}}};
  EXPECT_EQ(policy.Choose(outlook), ChunkPolicy::kGrain) << "nothing is known yet";
  for (int step = 0; step < 40; ++step) {
    const StepLoad load = LoadAt(outlook, policy.Choose(outlook));
    policy.Observe(load, device.Seconds(load, 0) * (step < 2 ? 500 : 1));
  }
  EXPECT_GT(policy.Choose(outlook), 200);
  EXPECT_EQ(policy.last_binding(), policy.Choose(outlook));
  EXPECT_FALSE(policy.out_of_reach());
}

TEST(ChunkPolicyTest, IsTheSameForTheSameTimes) {
  Device device = Draw(5);
  device.noise = 0.05;
  const ChunkPolicyConfig config{.most = kMost, .max_step_seconds = 3 * device.unit};
  ChunkPolicy one(config);
  ChunkPolicy two(config);
  EXPECT_EQ(Serve(device, &one, 0, 50).chunks, Serve(device, &two, 0, 50).chunks);
}

TEST(ChunkPolicyTest, WithoutALimitComputingTakesAsLongAsReading) {
  const StepBalance balance{
      .weights = 1e-3, .position = 1e-8, .token = 4e-6, .pair = 1e-10, .logits = 1e-6};
  ChunkPolicy policy({.most = kMost, .balance = balance});
  for (const int32_t rows : {0, 8, 32, 200}) {
    const StepOutlook outlook{
        .decode_tokens = rows, .decode_positions = int64_t{rows} * 500, .prompts = {{64, 5000}}};
    const int32_t chunk = policy.Choose(outlook);
    EXPECT_EQ(chunk % ChunkPolicy::kGrain, 0);
    const auto computes_longer = [&](int32_t tokens) {
      const StepLoad load = LoadAt(outlook, tokens);
      return balance.Computing(load) > balance.Reading(load);
    };
    EXPECT_TRUE(computes_longer(chunk + ChunkPolicy::kGrain)) << rows;
    EXPECT_FALSE(chunk > ChunkPolicy::kGrain && computes_longer(chunk)) << rows;
  }
  const StepOutlook many_rows{
      .decode_tokens = 1000, .decode_positions = 1000, .prompts = {{0, 5000}}};
  EXPECT_EQ(policy.Choose(many_rows), ChunkPolicy::kGrain) << "prompts always go on";
}

TEST(ChunkPolicyTest, NeverGoesOverTheMost) {
  ChunkPolicy policy({.most = 64, .balance = {.weights = 1}});
  EXPECT_EQ(policy.Choose({.prompts = {{0, 100}}}), 64);
  EXPECT_EQ(policy.Choose({.prompts = {{0, 20}}}), 32)
      << "a multiple of 16 that holds what is left";
  EXPECT_EQ(policy.Choose({.decode_tokens = 3}), 64);
}

TEST(ChunkPolicyTest, RefusesWhatItCannotKeepTo) {
  EXPECT_TRUE(ValidateChunkPolicy({.most = 16, .max_step_seconds = 1e-3}).ok());
  EXPECT_FALSE(ValidateChunkPolicy({.most = 0}).ok());
  EXPECT_FALSE(ValidateChunkPolicy({.most = 100}).ok());
  EXPECT_FALSE(ValidateChunkPolicy({.max_step_seconds = 0}).ok());
  EXPECT_FALSE(ValidateChunkPolicy({.max_step_seconds = std::nan("")}).ok());
  EXPECT_FALSE(
      ValidateChunkPolicy({.max_step_seconds = std::numeric_limits<double>::infinity()}).ok());
}

}  // namespace
}  // namespace decant
