#include "bench/python_random.h"

#include <gtest/gtest.h>

#include <vector>

namespace decant {
namespace {

// Every expected number was printed by CPython 3.

TEST(PythonRandomTest, SeedsAsPythonDoes) {
  const std::vector<std::pair<uint64_t, std::vector<uint32_t>>> first = {
      {0, {3626764237, 1654615998, 3255389356}},
      {1, {577090037, 2444712010, 3639700191}},
      {42, {2746317213, 478163327, 107420369}},
      {0xffffffff, {2728839433, 2661025012, 872737089}},
      {0x100000000, {485306839, 1508871100, 1794561286}},
      {(uint64_t{1} << 40) + 17, {2840774218, 3282848423, 1037313734}},
      {~uint64_t{0}, {93740670, 1068495656, 1452108352}}};
  for (const auto& [seed, expected] : first) {
    PythonRandom random(seed);
    for (const uint32_t bits : expected) EXPECT_EQ(random.Bits(), bits) << seed;
  }
}

TEST(PythonRandomTest, GoesOnPastTheFirstBlock) {
  PythonRandom random(5);
  std::vector<uint32_t> draws(2000);
  for (uint32_t& draw : draws) draw = random.Bits();
  EXPECT_EQ(draws[624], 3041615143U);
  EXPECT_EQ(draws[1999], 2894893787U);
}

TEST(PythonRandomTest, DrawsBelowABoundAsPythonDoes) {
  PythonRandom random(7);
  for (const int32_t expected : {82, 38, 101, 12, 18, 137, 24, 93}) {
    EXPECT_EQ(random.Int(0, 160), expected);
  }
  const std::vector<int32_t> lengths = {16, 64, 256, 1024, 4096};
  for (const int32_t expected : {4096, 16, 4096, 64, 16, 16, 1024, 1024}) {
    EXPECT_EQ(random.Choice(lengths), expected);
  }
  PythonRandom signed_random(3);
  for (const int32_t expected : {-4, -1, -1, -4, -3}) EXPECT_EQ(signed_random.Int(-5, 1), expected);
  EXPECT_EQ(signed_random.Int(0, 0x7fffffff), 2036044446);
}

}  // namespace
}  // namespace decant
