#include "sim/mutations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/fault_hunt.h"

namespace decant {
namespace {

constexpr int64_t kWithin = 200;  // histories

class MutationTest : public ::testing::TestWithParam<MutationEntry> {};

TEST_P(MutationTest, IsCaughtSoon) {
  const HuntResult result = HuntFaults({.first_seed = 1, .histories = kWithin, .most_shrunk = 1},
                                       MutatedSubjects(GetParam().mutation), [](int64_t) {});
  ASSERT_GT(result.failed, 0) << GetParam().what;
  const FoundFault& fault = result.faults.front();
  EXPECT_LE(fault.shrunk.events.size(), 8) << "of " << fault.events;
}

INSTANTIATE_TEST_SUITE_P(All, MutationTest,
                         ::testing::ValuesIn(Mutations().begin(), Mutations().end()),
                         [](const auto& tested) {
                           std::string name(tested.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(MutationsTest, CopyWithoutFaultPasses) {
  const HuntResult result = HuntFaults({.first_seed = 1, .histories = 300},
                                       MutatedSubjects(Mutation::kNone), [](int64_t /*more*/) {});
  EXPECT_EQ(result.failed, 0);
}

TEST(MutationsTest, HasEachOneOnce) {
  int32_t number = 0;
  for (const MutationEntry& entry : Mutations()) {
    EXPECT_EQ(static_cast<int32_t>(entry.mutation), ++number) << entry.name;
    const Expected<Mutation> parsed = ParseMutation(entry.name);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, entry.mutation);
  }
  const Expected<Mutation> unknown = ParseMutation("no-such");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("lose-page"), std::string::npos);
}

}  // namespace
}  // namespace decant
