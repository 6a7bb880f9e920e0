#include "bench/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace decant {
namespace {

const std::vector<Token> kAlphabet = {3, 5, 7, 11};

TEST(PoissonArrivalsTest, GapsAreExponential) {
  constexpr int32_t kCount = 40001;
  const std::vector<double> arrivals = PoissonArrivals(kCount, 0);
  EXPECT_EQ(arrivals.front(), 0);
  EXPECT_NEAR(arrivals.back() / (kCount - 1), 1, 0.02);  // four standard deviations
  for (const double longer : {0.1, 1.0, 3.0}) {
    int count = 0;
    for (size_t i = 1; i < arrivals.size(); ++i) {
      count += arrivals[i] - arrivals[i - 1] > longer ? 1 : 0;
    }
    EXPECT_NEAR(count / 4e4, std::exp(-longer), 0.01) << longer;
  }
}

TEST(PoissonArrivalsTest, DependOnSeedAndPlaceOnly) {
  const std::vector<double> longer = PoissonArrivals(400, 7);
  const std::vector<double> shorter = PoissonArrivals(50, 7);
  EXPECT_TRUE(std::ranges::equal(shorter, std::span(longer).first(50)));
  EXPECT_NE(PoissonArrivals(50, 8), shorter);
  EXPECT_TRUE(PoissonArrivals(0, 7).empty());
}

TEST(PoissonTrafficTest, AHigherRateIsTheSamePatternCompressed) {
  const Workload workload = MakeWorkload("w", {.prompt_lengths = {4}}, 50, kAlphabet);
  const Traffic slow = PoissonTraffic(workload, 3, 0.5);
  const Traffic fast = PoissonTraffic(workload, 3, 8);
  for (size_t i = 0; i < slow.arrivals.size(); ++i) {
    EXPECT_DOUBLE_EQ(slow.arrivals[i], 16 * fast.arrivals[i]);
  }
  EXPECT_DOUBLE_EQ(slow.OfferedRate(), 50 / slow.arrivals.back());
  EXPECT_TRUE(std::isinf(PoissonTraffic({}, 3, 1).OfferedRate()));
}

TEST(TraceTrafficTest, LeavesOutWhatIsTooLongAndCountsFromTheFirst) {
  const std::vector<TraceRequest> trace = {
      {.arrival = 1, .prompt_tokens = 90, .output_tokens = 11},
      {.arrival = 3, .prompt_tokens = 90, .output_tokens = 10},
      {.arrival = 3, .prompt_tokens = 1, .output_tokens = 1},
      {.arrival = 9, .prompt_tokens = 1 << 30, .output_tokens = 1 << 30},
      {.arrival = 11, .prompt_tokens = 5, .output_tokens = 7}};
  const Expected<Traffic> traffic = TraceTraffic(trace, 100, 2, kAlphabet);
  ASSERT_TRUE(traffic.ok());
  EXPECT_EQ(traffic->left_out, 2);
  EXPECT_EQ(traffic->arrivals, (std::vector<double>{0, 0, 4}));
  ASSERT_EQ(traffic->workload.items.size(), 3U);
  EXPECT_EQ(traffic->workload.items[0].prompt.size(), 90U);
  EXPECT_EQ(traffic->workload.items[2].budget, 7);
  EXPECT_EQ(traffic->workload.prompt_tokens(), 96);
  const Expected<Traffic> slower = TraceTraffic(trace, 100, 1, kAlphabet);
  EXPECT_EQ(slower->workload.items[2].prompt, traffic->workload.items[2].prompt);
  EXPECT_EQ(slower->arrivals.back(), 8);
  EXPECT_NE(TraceTraffic(trace, 1, 2, kAlphabet).status().message().find("5 requests"),
            std::string::npos);
}

}  // namespace
}  // namespace decant
