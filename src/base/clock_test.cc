#include "base/clock.h"

#include <gtest/gtest.h>

namespace decant {
namespace {

TEST(ClockTest, FormatsUtc) {
  EXPECT_EQ(FormatUtc(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatUtc(951827696), "2000-02-29T12:34:56Z");
  EXPECT_EQ(FormatUtc(-1), "1969-12-31T23:59:59Z");
  EXPECT_EQ(UtcTimestamp().size(), FormatUtc(0).size());
}

TEST(ClockTest, StopwatchMovesForward) {
  Stopwatch watch;
  const int64_t before = SteadyNanos();
  while (SteadyNanos() - before < 2'000'000) {
  }
  EXPECT_GE(watch.Seconds(), 0.002);
  watch.Restart();
  EXPECT_GE(watch.Seconds(), 0.0);
}

}  // namespace
}  // namespace decant
