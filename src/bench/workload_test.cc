#include "bench/workload.h"

#include <gtest/gtest.h>

#include <map>

namespace decant {
namespace {

const std::vector<Token> kAlphabet = {3, 5, 7, 11};

TEST(WorkloadTest, DrawsTheMix) {
  const Workload workload = MakeWorkload("mixed", {.seed = 1}, 2000, kAlphabet);
  std::map<size_t, int> lengths;
  std::map<Token, int64_t> ids;
  int32_t least = 1 << 30;
  int32_t most = 0;
  for (const WorkItem& item : workload.items) {
    ++lengths[item.prompt.size()];
    for (const Token id : item.prompt) ++ids[id];
    least = std::min(least, item.budget);
    most = std::max(most, item.budget);
  }
  ASSERT_EQ(lengths.size(), 5U);
  for (const size_t length : {16, 64, 256, 1024, 4096}) {
    EXPECT_NEAR(lengths[length], 400, 80) << length;  // over four standard deviations
  }
  EXPECT_EQ(least, 64);
  EXPECT_EQ(most, 256);
  ASSERT_EQ(ids.size(), kAlphabet.size());
  for (const Token id : kAlphabet) {
    EXPECT_NEAR(static_cast<double>(ids[id]) / static_cast<double>(workload.prompt_tokens()), 0.25,
                0.01);
  }
}

TEST(WorkloadTest, DependsOnSeedAndPlaceOnly) {
  const Workload shorter = MakeWorkload("a", {.seed = 7}, 8, kAlphabet);
  const Workload longer = MakeWorkload("b", {.seed = 7}, 32, kAlphabet);
  const Workload other = MakeWorkload("c", {.seed = 8}, 8, kAlphabet);
  int same = 0;
  for (size_t i = 0; i < shorter.items.size(); ++i) {
    EXPECT_EQ(shorter.items[i].prompt, longer.items[i].prompt);
    EXPECT_EQ(shorter.items[i].budget, longer.items[i].budget);
    same += shorter.items[i].prompt == other.items[i].prompt ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(WorkloadTest, ScalesAndCounts) {
  const WorkloadOptions options = {
      .prompt_lengths = {100}, .min_budget = 10, .max_budget = 10, .scale = 0.25};
  const Workload workload = MakeWorkload("scaled", options, 3, kAlphabet);
  EXPECT_EQ(workload.prompt_tokens(), 3 * 25);
  EXPECT_EQ(workload.budget_tokens(), 3 * 3);  // 2.5 rounds away from zero
  EXPECT_EQ(workload.longest(), 28);
}

TEST(WorkloadTest, RefusesBadOptions) {
  const auto message = [](const WorkloadOptions& options) {
    return ValidateWorkloadOptions(options).message();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.prompt_lengths = {}}), "");
  EXPECT_NE(message({.prompt_lengths = {16, 0}}).find('0'), std::string::npos);
  EXPECT_NE(message({.min_budget = 0}), "");
  EXPECT_NE(message({.min_budget = 9, .max_budget = 8}), "");
  EXPECT_NE(message({.scale = 0}), "");
  EXPECT_NE(message({.scale = std::numeric_limits<double>::quiet_NaN()}), "");
}

}  // namespace
}  // namespace decant
