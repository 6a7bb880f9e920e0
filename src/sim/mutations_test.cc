#include "sim/mutations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/fault_hunt.h"
#include "sim/shrink_history.h"

namespace decant {
namespace {

constexpr uint64_t kWithin = 1000;  // histories

class MutationTest : public ::testing::TestWithParam<MutationEntry> {};

TEST_P(MutationTest, IsCaughtAndCutDown) {
  const SubjectFactory subjects = MutatedSubjects(GetParam().mutation);
  for (uint64_t seed = 1; seed <= kWithin; ++seed) {
    const FaultHistory history = DrawHistory(seed);
    const Verdict breach = RunHistory(history, subjects).breach;
    if (!breach) continue;
    EXPECT_LE(ShrinkHistory(history, breach->promise, subjects).events.size(), 8);
    return;
  }
  FAIL() << "none of " << kWithin << " histories shows it: " << GetParam().what;
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
