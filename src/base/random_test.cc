#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace decant {
namespace {

TEST(CounterRngTest, KeysAndCountersGiveDistinctDraws) {
  std::set<uint64_t> seen;
  for (uint64_t key = 0; key < 200; ++key) {
    for (uint64_t counter = 0; counter < 200; ++counter) seen.insert(CounterRng(key).Bits(counter));
  }
  EXPECT_EQ(seen.size(), 200U * 200U);
  EXPECT_EQ(seen.count(0), 0U);
}

TEST(CounterRngTest, UniformFillsItsRangeEvenly) {
  constexpr int kDraws = 100000;
  for (uint64_t key : {0, 1, 12345}) {
    int buckets[10] = {};
    for (int i = 0; i < kDraws; ++i) {
      const double value = CounterRng(key).Uniform(i);
      ASSERT_GE(value, 0.0);
      ASSERT_LT(value, 1.0);
      ++buckets[static_cast<int>(value * 10)];
      ASSERT_LT(CounterRng(key).Below(i, 7), 7U);
    }
    // Five standard deviations of a binomial count.
    for (int count : buckets) EXPECT_NEAR(count, kDraws / 10, 475);
  }
}

}  // namespace
}  // namespace decant
