#include "ops/cuda/step_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "ops/cuda/prompt_tiles.h"

namespace decant {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr int32_t kPoison = -77;

TEST(PaddedTokensTest, AreFewAndWasteLittle) {
  constexpr int32_t kMost = 8448;
  EXPECT_EQ(PaddedTokens(1, kMost), 1);
  EXPECT_EQ(PaddedTokens(3, kMost), 4);
  EXPECT_EQ(PaddedTokens(32, kMost), 32);
  EXPECT_EQ(PaddedTokens(544, kMost), 544);
  std::vector<int32_t> numbers;
  for (int32_t tokens = 1; tokens <= kMost; ++tokens) {
    const int32_t padded = PaddedTokens(tokens, kMost);
    ASSERT_GE(padded, tokens);
    ASSERT_LE(padded, kMost);
    ASSERT_LE(padded - tokens, std::max(7, tokens / 2)) << tokens;
    ASSERT_EQ(PaddedTokens(padded, kMost), padded) << tokens;
    if (numbers.empty() || numbers.back() != padded) numbers.push_back(padded);
  }
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_LE(numbers.size(), 100);
  EXPECT_EQ(PaddedTokens(530, 543), 543) << "not over the workspace";
}

/// A batch whose memory lives as long as it does.
struct Batch {
  /// Rows of (query length, context length), decode rows first.
  Batch(std::initializer_list<std::pair<int32_t, int32_t>> shapes, int32_t page_size) {
    int32_t page = 100;
    for (const auto& [query_len, context_len] : shapes) {
      std::vector<int32_t>& table = tables.emplace_back();
      for (int32_t i = 0; i * page_size < context_len; ++i) table.push_back(page++);
    }
    for (const auto& [query_len, context_len] : shapes) {
      const auto r = static_cast<int32_t>(rows.size());
      rows.push_back({.slot = 50 - r,
                      .query_start = static_cast<int32_t>(ids.size()),
                      .query_len = query_len,
                      .context_len = context_len,
                      .pages = tables[r]});
      for (int32_t i = 0; i < query_len; ++i) {
        positions.push_back(context_len - query_len + i);
        ids.push_back(query_len == 1 ? kLastToken : 1000 + positions.back());
        token_rows.push_back(r);
      }
    }
    view = {.token_ids = ids, .positions = positions, .token_rows = token_rows, .rows = rows};
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::vector<std::vector<int32_t>> tables;
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  std::vector<int32_t> token_rows;
  std::vector<BatchRow> rows;
  StepBatch view;
};

/// A packer, and memory of the host's in place of a device's.
class PackedStep {
 public:
  explicit PackedStep(const StepLimits& limits)
      : packer_(limits),
        host_(packer_.host_words(), kPoison),
        device_(packer_.device_words(), kPoison) {}

  /// Packs into poisoned memory.
  const StepArrays& Pack(const StepBatch& batch, PromptPlanner* planner, StepShape shape,
                         const GraphDraws& draws = {}) {
    std::ranges::fill(host_, kPoison);
    step_ = packer_.Pack(batch, planner, shape, draws, host_, device_.data());
    return step_;
  }
  void Copy() {
    for (int32_t i = 0; i < packer_.copies().words(); ++i) {
      CopyStepWord(packer_.copies(), i, host_.data(), device_.data());
    }
  }
  template <typename T>
  std::vector<T> At(const T* place, int64_t count) const {
    return {place, place + count};
  }
  void Poison() { std::ranges::fill(device_, kPoison); }

 private:
  StepPacker packer_;
  std::vector<int32_t> host_;
  std::vector<int32_t> device_;
  StepArrays step_;
};

constexpr StepLimits kLimits = {.tokens = 48, .rows = 6, .pages_per_row = 5, .group = 2};

TEST(StepPackerTest, PadsTokensAndTables) {
  const Batch batch({{1, 9}, {1, 16}, {7, 7}}, 8);
  PackedStep packed(kLimits);
  const StepArrays& step =
      packed.Pack(batch.view, nullptr, StepShape::kRounded, {.samples = 2, .turn = 1});
  packed.Copy();
  const StepCounts counts = packed.At(step.counts, 1)[0];
  EXPECT_EQ(counts.decode_rows, 2);
  EXPECT_EQ(counts.draws.samples, 2);
  EXPECT_EQ(counts.draws.turn, 1);
  EXPECT_EQ(step.tokens, 16);
  EXPECT_EQ(step.rows, 3);
  EXPECT_EQ(step.decode_rows, 2);
  EXPECT_EQ(step.table_stride, 7);
  EXPECT_THAT(packed.At(step.token_ids, 16),
              ElementsAre(kLastToken, kLastToken, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 0, 0, 0,
                          0, 0, 0, 0));
  EXPECT_THAT(packed.At(step.positions, 16),
              ElementsAre(8, 15, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(packed.At(step.token_rows, 16),
              ElementsAre(0, 1, 2, 2, 2, 2, 2, 2, 2, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(packed.At(step.query_starts, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(packed.At(step.query_lens, 3), ElementsAre(1, 1, 7));
  EXPECT_THAT(packed.At(step.context_lens, 3), ElementsAre(9, 16, 7));
  EXPECT_THAT(packed.At(step.row_slots, 3), ElementsAre(50, 49, 48));
  constexpr int32_t kNone = kNoPage;
  EXPECT_THAT(packed.At(step.block_tables, 21),
              ElementsAre(100, 101, kNone, kNone, kNone, kNone, kNone,  //
                          102, 103, kNone, kNone, kNone, kNone, kNone,  //
                          104, kNone, kNone, kNone, kNone, kNone, kNone));
  EXPECT_EQ(step.prompt_tiles, 1);
  EXPECT_THAT(packed.At(step.prompt_tiles_at, 2), ElementsAre(2, 0));
}

TEST(StepPackerTest, LeavesExactStepsAsTheyAre) {
  const Batch batch({{1, 9}, {6, 40}}, 8);
  PackedStep packed(kLimits);
  const StepArrays& step = packed.Pack(batch.view, nullptr, StepShape::kExact);
  packed.Copy();
  EXPECT_EQ(step.tokens, 7);
  EXPECT_EQ(step.table_stride, 5);
  EXPECT_THAT(packed.At(step.token_ids, 7), ElementsAreArray(batch.ids));
  EXPECT_THAT(packed.At(step.block_tables, 10),
              ElementsAre(100, 101, kNoPage, kNoPage, kNoPage, 102, 103, 104, 105, 106));
}

TEST(StepPackerTest, PlansPromptsInDeviceMemory) {
  PromptPlanner planner({.shape = {.heads = 4, .kv_heads = 2, .head_dim = 64},
                         .multiprocessors = 4,
                         .max_tokens = 2000,
                         .max_rows = 6});
  PackedStep packed(
      {.tokens = 2000, .rows = 6, .pages_per_row = 300, .group = 2, .prompt_plan = planner.most()});
  for (const Batch& batch : {Batch({{1, 9}, {600, 1700}, {1200, 1200}}, 16), Batch({{2, 2}}, 16),
                             Batch({{1, 4000}, {1, 1}}, 16)}) {
    packed.Poison();
    const StepArrays& step = packed.Pack(batch.view, &planner, StepShape::kRounded);
    packed.Copy();
    const PromptPlanCounts counts = packed.At(step.prompt_counts, 1)[0];
    EXPECT_EQ(counts.items, step.prompt_plan.items);
    EXPECT_EQ(counts.merges, step.prompt_plan.merges);
    EXPECT_EQ(counts.slots, step.prompt_plan.slots);
    EXPECT_EQ(counts.mergers, step.prompt_plan.mergers);
    ASSERT_EQ(counts.items, std::ssize(planner.items()));
    for (int32_t i = 0; i < counts.items; ++i) {
      EXPECT_EQ(step.prompt_items[i].key_end, planner.items()[i].key_end);
      EXPECT_EQ(step.prompt_items[i].slot, planner.items()[i].slot);
      EXPECT_EQ(step.prompt_items[i].table % step.table_stride, 0);
    }
    for (int32_t i = 0; i < counts.merges; ++i) {
      EXPECT_EQ(step.prompt_merges[i].slot, planner.merges()[i].slot);
      EXPECT_EQ(step.prompt_merges[i].ranges, planner.merges()[i].ranges);
    }
    // For the other prompt kernel, should a gate exchange it.
    const std::vector<int32_t> tiles = packed.At(step.prompt_tiles_at, 2 * step.prompt_tiles);
    int32_t tile = 0;
    for (int32_t r = 0; r < step.rows; ++r) {
      const BatchRow& row = batch.view.rows[r];
      if (row.query_len == 1) continue;
      for (int32_t i = 0; i < PromptTiles(row.query_len, 2); ++i, ++tile) {
        ASSERT_LT(tile, step.prompt_tiles);
        EXPECT_EQ(tiles[2 * tile], r);
        EXPECT_EQ(tiles[2 * tile + 1], i * kPromptTileRows);
      }
    }
    EXPECT_EQ(step.prompt_tiles, tile);
  }
}

/// A graph finds every step's arrays where the step that it was recorded from had them.
TEST(StepPackerTest, KeepsPlacesFromStepToStep) {
  PromptPlanner planner({.shape = {.heads = 4, .kv_heads = 2, .head_dim = 64},
                         .multiprocessors = 4,
                         .max_tokens = 640,
                         .max_rows = 6});
  PackedStep packed(
      {.tokens = 640, .rows = 6, .pages_per_row = 50, .group = 2, .prompt_plan = planner.most()});
  const auto places = [&](const Batch& batch) {
    const StepArrays& step = packed.Pack(batch.view, &planner, StepShape::kRounded);
    return std::vector<const void*>{step.token_ids,     step.positions,     step.token_rows,
                                    step.query_starts,  step.query_lens,    step.context_lens,
                                    step.row_slots,     step.block_tables,  step.prompt_items,
                                    step.prompt_merges, step.prompt_counts, step.prompt_tiles_at,
                                    step.counts};
  };
  const std::vector<const void*> first = places(Batch({{1, 3}}, 16));
  EXPECT_THAT(first, Each(::testing::NotNull()));
  EXPECT_EQ(places(Batch({{1, 700}, {1, 3}, {600, 640}, {33, 33}}, 16)), first);
  EXPECT_EQ(places(Batch({{500, 700}}, 16)), first);
}

TEST(StepPackerTest, HoldsTheLargestStepOfItsLimits) {
  PromptPlanner planner({.shape = {.heads = 4, .kv_heads = 2, .head_dim = 64},
                         .multiprocessors = 132,
                         .max_tokens = kLimits.tokens,
                         .max_rows = kLimits.rows});
  StepLimits limits = kLimits;
  limits.prompt_plan = planner.most();
  PackedStep packed(limits);
  const Batch batch({{8, 40}, {8, 40}, {8, 40}, {8, 40}, {8, 40}, {8, 40}}, 8);
  for (PromptPlanner* used : {&planner, static_cast<PromptPlanner*>(nullptr)}) {
    for (const StepShape shape : {StepShape::kExact, StepShape::kRounded}) {
      const StepArrays& step = packed.Pack(batch.view, used, shape);
      packed.Copy();
      EXPECT_EQ(step.tokens, 48);
      EXPECT_EQ(packed.At(step.block_tables + 5 * step.table_stride, 1)[0], batch.tables[5][0]);
    }
  }
}

}  // namespace
}  // namespace decant
