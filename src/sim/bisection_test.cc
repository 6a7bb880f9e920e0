#include "sim/bisection.h"

#include <gtest/gtest.h>

#include <set>

namespace decant {
namespace {

TEST(FindHighest, ClosesInFromAnyStart) {
  for (const double start : {0.001, 0.5, 7.0, 7.3, 500.0}) {
    int trials = 0;
    const HeldRange range = FindHighest({.start = start, .precision = 0.01}, [&](double value) {
                              ++trials;
                              return Expected<bool>(value <= 7.1);
                            }).value();
    ASSERT_TRUE(range.held && range.beyond) << start;
    EXPECT_LE(*range.held, 7.1);
    EXPECT_GT(*range.beyond, 7.1);
    EXPECT_LE(*range.beyond, *range.held * 1.01);
    EXPECT_LE(trials, 20) << start;
  }
}

TEST(FindHighest, SaysWhenAnEndIsReached) {
  const RateSearch search{.start = 2, .least = 1, .most = 4};
  const auto always = [](double) { return Expected<bool>(true); };
  const HeldRange all = FindHighest(search, always).value();
  EXPECT_EQ(all.held, 4);
  EXPECT_FALSE(all.beyond);
  const auto never = [](double) { return Expected<bool>(false); };
  const HeldRange none = FindHighest(search, never).value();
  EXPECT_FALSE(none.held);
  EXPECT_EQ(none.beyond, 1);
}

TEST(FindHighest, StopsAtAnError) {
  const auto fails = [](double) { return Expected<bool>(InvalidArgument("no")); };
  EXPECT_EQ(FindHighest({}, fails).status().code(), StatusCode::kInvalidArgument);
}

TEST(FindLeast, FindsEveryAnswerExactlyWithoutTryingTwice) {
  for (int32_t answer = 1; answer <= 40; ++answer) {
    for (const int32_t start : {1, 2, 13, 40, 100}) {
      std::set<int32_t> tried;
      const LeastRange range =
          FindLeast({.start = start, .most = 100, .precision = 1e-9}, [&](int32_t count) {
            EXPECT_TRUE(tried.insert(count).second) << count << " for " << answer;
            return Expected<bool>(count >= answer);
          }).value();
      EXPECT_EQ(range.held, answer);
      EXPECT_EQ(range.below, answer - 1);
    }
  }
}

TEST(FindLeast, GivesUpAtTheMost) {
  const LeastRange range = FindLeast({.start = 3, .most = 50}, [](int32_t count) {
                             EXPECT_LE(count, 50);
                             return Expected<bool>(false);
                           }).value();
  EXPECT_FALSE(range.held);
  EXPECT_EQ(range.below, 50);
}

}  // namespace
}  // namespace decant
