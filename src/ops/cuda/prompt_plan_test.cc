#include "ops/cuda/prompt_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "ops/cuda/divider.h"

namespace decant {
namespace {

using Cut = PromptPlanChoices::Cut;

struct Chunk {
  int32_t tokens = 0;
  int32_t history = 0;
};

std::vector<BatchRow> MakeRows(const std::vector<Chunk>& chunks) {
  std::vector<BatchRow> rows;
  int32_t start = 0;
  for (const Chunk& chunk : chunks) {
    rows.push_back({.query_start = start,
                    .query_len = chunk.tokens,
                    .context_len = chunk.history + chunk.tokens,
                    .pages = {}});
    start += chunk.tokens;
  }
  return rows;
}

/// How many slots the sums of an item's range take.
int32_t Parts(const PromptItem& item) { return item.rows > kPromptPartRows ? 2 : 1; }

/// Every query row of every head has each of its keys in one item, in ranges of its position; what
/// several items share is merged, and no two write to the same slot.
void CheckPlan(const PromptPlanner& planner, const std::vector<BatchRow>& rows,
               const PromptPlanCounts& counts, int32_t table_stride) {
  const AttentionShape& shape = planner.shape();
  ASSERT_EQ(counts.items, static_cast<int32_t>(planner.items().size()));
  ASSERT_EQ(counts.merges, static_cast<int32_t>(planner.merges().size()));
  ASSERT_LE(counts.items, planner.most().items);
  ASSERT_LE(counts.merges, planner.most().merges);
  ASSERT_LE(counts.slots, planner.most().slots);

  std::map<int32_t, int32_t> row_at;  // by token_start
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].query_len > 1) row_at[rows[r].query_start] = static_cast<int32_t>(r);
  }
  using RowOfHead = std::tuple<int32_t, int32_t, int32_t>;  // batch row, packed row, KV head
  std::map<RowOfHead, std::vector<const PromptItem*>> items_of;
  std::set<int32_t> slots;
  int32_t mergers = 0;
  for (const PromptItem& item : planner.items()) {
    const auto found = row_at.find(item.token_start);
    ASSERT_NE(found, row_at.end());
    const BatchRow& row = rows[found->second];
    EXPECT_EQ(item.table, found->second * table_stride);
    EXPECT_EQ(item.context, row.context_len);
    EXPECT_EQ(item.first_position, row.context_len - row.query_len);
    EXPECT_EQ(item.key_begin % item.range, 0);
    ASSERT_GE(item.rows, 1);
    ASSERT_LE(item.rows, 2 * kPromptPartRows);
    for (int32_t i = 0; i < item.rows; ++i) {
      const int32_t packed_row = item.first_row + i;
      const int32_t position = item.first_position + packed_row / shape.group();
      EXPECT_EQ(item.range, PromptRangeKeys(position));
      items_of[{found->second, packed_row, item.kv_head}].push_back(&item);
    }
    if (item.awaited > 0) {
      EXPECT_LT(&item - planner.items().data(), planner.multiprocessors());
      EXPECT_EQ(item.key_begin, 0);
      ++mergers;
    }
    if (item.slot < 0) continue;
    EXPECT_LE(item.key_end - item.key_begin, item.range);
    if (item.awaited > 0) continue;
    for (int32_t part = 0; part < Parts(item); ++part) {
      EXPECT_TRUE(slots.insert(item.slot + part).second) << "slot of two items";
      EXPECT_LT(item.slot + part, counts.slots);
    }
  }
  EXPECT_EQ(counts.slots, static_cast<int32_t>(slots.size()));
  EXPECT_EQ(counts.mergers, mergers);
  EXPECT_LT(2 * mergers, planner.multiprocessors()) << "too few blocks that do not wait";

  std::map<RowOfHead, const PromptMerge*> merge_of;
  for (const PromptMerge& merge : planner.merges()) {
    for (int32_t i = 0; i < merge.rows; ++i) {
      EXPECT_TRUE(
          merge_of
              .insert({{row_at.at(merge.token_start), merge.first_row + i, merge.kv_head}, &merge})
              .second);
    }
  }
  size_t expected = 0;
  for (const auto& [start, r] : row_at) {
    for (int32_t packed_row = 0; packed_row < rows[r].query_len * shape.group(); ++packed_row) {
      for (int32_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head, ++expected) {
        auto& items = items_of[{r, packed_row, kv_head}];
        ASSERT_FALSE(items.empty());
        std::ranges::sort(items, {}, &PromptItem::key_begin);
        const int32_t position =
            rows[r].context_len - rows[r].query_len + packed_row / shape.group();
        int32_t key = 0;
        for (const PromptItem* item : items) {
          EXPECT_EQ(item->key_begin, key);
          key = item->key_end;
        }
        EXPECT_GT(key, position);
        EXPECT_LE(key, rows[r].context_len);
        const auto merge = merge_of.find({r, packed_row, kv_head});
        if (items.front()->slot < 0 || items.front()->awaited > 0) {
          EXPECT_EQ(merge, merge_of.end());
          ASSERT_EQ(std::ssize(items), 1 + items.front()->awaited);
          for (size_t i = 1; i < items.size(); ++i) {
            EXPECT_EQ(items[i]->slot,
                      items.front()->slot + static_cast<int32_t>(i - 1) * Parts(*items.front()));
          }
          continue;
        }
        ASSERT_NE(merge, merge_of.end());
        ASSERT_EQ(merge->second->ranges, static_cast<int32_t>(items.size()));
        const int32_t part = (packed_row - items.front()->first_row) / kPromptPartRows;
        for (size_t i = 0; i < items.size(); ++i) {
          EXPECT_EQ(items[i]->slot + part,
                    merge->second->slot + static_cast<int32_t>(i) * merge->second->stride);
        }
      }
    }
  }
  EXPECT_EQ(items_of.size(), expected);
}

TEST(PromptPlanTest, EveryQueryMeetsEachOfItsKeysOnce) {
  const std::vector<std::vector<Chunk>> steps = {
      {{512, 0}},
      {{512, 3584}},
      {{2, 8000}},
      {{1, 4095}, {1, 7}, {2, 63}, {3, 64}, {65, 511}, {129, 127}, {43, 1000}, {7, 2047}},
      {{2048, 2048}},
      {{700, 324}, {100, 16000}},
      {{64, 0}, {64, 0}, {64, 0}, {64, 0}}};
  for (const auto& [kv_heads, group] :
       std::vector<std::pair<int32_t, int32_t>>{{2, 6}, {8, 4}, {1, 1}, {3, 16}, {5, 3}}) {
    PromptPlanner planner(
        {.shape = {.heads = kv_heads * group, .kv_heads = kv_heads, .head_dim = 128},
         .multiprocessors = 132,
         .max_tokens = 2048,
         .max_rows = 8});
    for (const std::vector<Chunk>& step : steps) {
      for (const Cut cut : {Cut::kBalanced, Cut::kAll, Cut::kNone}) {
        for (const int32_t tile_rows : {0, kPromptPartRows, 2 * kPromptPartRows}) {
          const std::vector<BatchRow> rows = MakeRows(step);
          const PromptPlanCounts counts =
              planner.Plan(rows, 300, {.cut = cut, .tile_rows = tile_rows});
          ASSERT_NO_FATAL_FAILURE(CheckPlan(planner, rows, counts, 300));
        }
      }
    }
  }
}

TEST(PromptPlanTest, LongHistoriesAreSharedByAllMultiprocessors) {
  PromptPlanner planner({.shape = {.heads = 12, .kv_heads = 2, .head_dim = 128},
                         .multiprocessors = 132,
                         .max_tokens = 2048,
                         .max_rows = 8});
  EXPECT_GE(planner.Plan(MakeRows({{512, 3584}}), 64).items, 132);
  EXPECT_EQ(planner.Plan(MakeRows({{512, 0}}), 64).slots, 0);
  EXPECT_EQ(planner.Plan(MakeRows({{1, 3584}}), 64).items, 0);
}

TEST(PromptPlanTest, RangesAreWholeBlocksOfKeysAndFew) {
  for (int32_t position = 0; position < 140'000; position += 37) {
    const int32_t range = PromptRangeKeys(position);
    EXPECT_EQ(range % kPromptKeys, 0);
    EXPECT_LE((position + range) / range, kMostPromptRanges);
    EXPECT_EQ(range, PromptRangeKeys(position / kPromptBucket * kPromptBucket));
  }
}

TEST(DividerTest, DividesAsTheProcessorDoes) {
  const CounterRng rng(3);
  for (const uint32_t divisor : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 12U, 16U, 28U, 256U, 1000U}) {
    const Divider divider(divisor);
    const auto check = [&](uint32_t dividend) {
      ASSERT_EQ(divider.Quotient(dividend), dividend / divisor);
      ASSERT_EQ(divider.Remainder(dividend), dividend % divisor);
    };
    for (uint32_t dividend = 0; dividend < 20'000; ++dividend) check(dividend);
    check((uint32_t{1} << 31) / divisor - 1);
    for (uint64_t i = 0; i < 1000; ++i) {
      check(static_cast<uint32_t>(rng.Below(i, (uint64_t{1} << 31) / divisor)));
    }
  }
}

}  // namespace
}  // namespace decant
