#include "sim/fault_history.h"

#include <gtest/gtest.h>

#include <set>

namespace decant {
namespace {

TEST(FaultHistoryTest, DependsOnItsSeedOnly) {
  EXPECT_EQ(DescribeHistory(DrawHistory(7)), DescribeHistory(DrawHistory(7)));
  EXPECT_NE(DescribeHistory(DrawHistory(7)), DescribeHistory(DrawHistory(8)));
}

TEST(FaultHistoryTest, HasEveryKindOfEngineAndEvent) {
  std::set<int32_t> page_sizes;
  std::set<size_t> kinds;
  int32_t slow_readers = 0;
  int32_t stalls = 0;
  int32_t without_lookahead = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const FaultHistory history = DrawHistory(seed);
    page_sizes.insert(history.setup.page_size);
    without_lookahead += history.setup.lookahead == Lookahead::kNone ? 1 : 0;
    for (const HistoryEvent& event : history.events) {
      kinds.insert(event.index());
      if (const auto* arrival = std::get_if<ArrivalEvent>(&event)) {
        slow_readers += arrival->turns_a_token > 0 ? 1 : 0;
      }
      if (const auto* turn = std::get_if<TurnEvent>(&event)) stalls += turn->stalls ? 1 : 0;
    }
  }
  for (const int32_t page_size : {1, 16, 64, 256}) EXPECT_TRUE(page_sizes.contains(page_size));
  EXPECT_EQ(kinds.size(), std::variant_size_v<HistoryEvent>);
  EXPECT_GT(slow_readers, 100);
  EXPECT_GT(stalls, 100);
  EXPECT_GT(without_lookahead, 30);
}

TEST(FaultHistoryTest, ReadsLineByLine) {
  FaultHistory history{.setup = {.page_size = 16, .num_pages = 3}};
  history.setup.scheduler = {
      .max_batch = 2, .chunk_tokens = 8, .limits = {.max_model_len = 40, .vocab_size = 10}};
  history.events = {ArrivalEvent{.id = 1, .prompt_tokens = 5, .budget = 2, .samples = 2},
                    TurnEvent{},
                    TurnEvent{},
                    TurnEvent{.stalls = true},
                    CancelEvent{.id = 1, .sample = 1},
                    FailureEvent{.in_launch = true},
                    StopEvent{}};
  EXPECT_EQ(
      DescribeHistory(history),
      (std::vector<std::string>{
          "3 pages of 16, 2 rows, chunks of 8, 40 positions a request, one step in flight",
          "request 1 arrives: 5 prompt tokens, budget 2, 2 samples", "turn (x2)",
          "turn whose step stalls", "request 1, sample 1 is cancelled", "the next launch fails",
          "the engine is stopped", "turns until nothing is left to do"}));
}

}  // namespace
}  // namespace decant
