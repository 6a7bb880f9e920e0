#include "tensor/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace decant {
namespace {

TEST(F16, EveryValueComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 value{static_cast<uint16_t>(bits)};
    const float wide = ToFloat(value);
    if ((bits & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(wide) && std::isnan(ToFloat(ToF16(wide)))) << bits;
    } else {
      EXPECT_EQ(ToF16(wide).bits, bits);
    }
  }
}

/// Between two neighbours the nearer one is taken, and in the middle the even one.
TEST(F16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = ToFloat(F16{static_cast<uint16_t>(bits)});
    const float high = ToFloat(F16{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(ToF16(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    EXPECT_EQ(ToF16(std::nextafter(middle, 0.0F)).bits, bits);
    EXPECT_EQ(ToF16(std::nextafter(middle, high)).bits, bits + 1);
    EXPECT_EQ(ToF16(-middle).bits, 0x8000U | ToF16(middle).bits);
  }
}

TEST(F16, OverflowsToInfinity) {
  EXPECT_EQ(ToF16(65504.0F).bits, 0x7bff);
  EXPECT_EQ(ToF16(65519.996F).bits, 0x7bff);
  EXPECT_EQ(ToF16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::max()).bits, 0x7c00);
}

}  // namespace
}  // namespace decant
