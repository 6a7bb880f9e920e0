#include "ops/cpu/read_bandwidth.h"

#include <gtest/gtest.h>

namespace decant {
namespace {

TEST(ReadBandwidthTest, IsPlausible) {
  const double rate = MeasureReadBandwidth(2, 8 << 20, 2);
  EXPECT_GT(rate, 1e8);
  EXPECT_LT(rate, 1e13);
}

}  // namespace
}  // namespace decant
