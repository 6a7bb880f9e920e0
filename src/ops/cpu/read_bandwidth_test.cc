#include "ops/cpu/read_bandwidth.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace decant {
namespace {

TEST(ReadBandwidthTest, IsPlausible) {
  // A busy machine only makes it smaller: the best of several tries counts.
  double best = 0;
  for (int attempt = 0; attempt < 100 && best <= 1e8; ++attempt) {
    best = std::max(best, MeasureReadBandwidth(2, 8 << 20, 2));
  }
  EXPECT_GT(best, 1e8);
  EXPECT_LT(best, 1e13);
}

}  // namespace
}  // namespace decant
