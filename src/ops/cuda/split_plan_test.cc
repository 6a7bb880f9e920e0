#include "ops/cuda/split_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace decant {
namespace {

constexpr SplitDevice kH200{.multiprocessors = 132,
                            .shared_bytes = 228 * 1024,
                            .block_shared_bytes = 227 * 1024,
                            .reserved_bytes = 1024};
constexpr SplitDevice kA100{.multiprocessors = 108,
                            .shared_bytes = 164 * 1024,
                            .block_shared_bytes = 163 * 1024,
                            .reserved_bytes = 1024};
constexpr SplitDevice kA10{.multiprocessors = 72,
                           .shared_bytes = 100 * 1024,
                           .block_shared_bytes = 99 * 1024,
                           .reserved_bytes = 1024};

AttentionShape Shape(int32_t kv_heads, int32_t group, int32_t head_dim) {
  return {.heads = kv_heads * group, .kv_heads = kv_heads, .head_dim = head_dim};
}

TEST(SplitPlanTest, BlocksFillTheDevice) {
  for (const SplitDevice& device : {kH200, kA100, kA10}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const int32_t group : {1, 6, 8, 9, 16}) {
        const Expected<SplitBlocks> blocks = ChooseSplitBlocks(Shape(2, group, head_dim), device);
        ASSERT_TRUE(blocks.ok()) << blocks.status().message();
        EXPECT_GE(blocks->stages, 2);
        EXPECT_LE(blocks->stages, kSplitMaxStages);
        EXPECT_EQ(blocks->grid, blocks->per_multiprocessor * device.multiprocessors);
        EXPECT_LE(blocks->shared_bytes, device.block_shared_bytes);
        EXPECT_LE(blocks->per_multiprocessor * (blocks->shared_bytes + device.reserved_bytes),
                  device.shared_bytes);
      }
    }
  }
}

TEST(SplitPlanTest, AnH200HasTwoBlocksOfThreeStages) {
  for (const int32_t group : {6, 16}) {
    const Expected<SplitBlocks> blocks = ChooseSplitBlocks(Shape(2, group, 128), kH200);
    ASSERT_TRUE(blocks.ok());
    EXPECT_EQ(blocks->per_multiprocessor, 2);
    EXPECT_EQ(blocks->stages, 3);
  }
}

TEST(SplitPlanTest, RefusesTooLittleSharedMemory) {
  const SplitDevice small{.multiprocessors = 10,
                          .shared_bytes = 64 * 1024,
                          .block_shared_bytes = 63 * 1024,
                          .reserved_bytes = 1024};
  const Expected<SplitBlocks> blocks = ChooseSplitBlocks(Shape(2, 6, 128), small);
  ASSERT_FALSE(blocks.ok());
  EXPECT_NE(blocks.status().message().find("shared memory"), std::string::npos);
}

TEST(SplitPlanTest, ChecksShapesAndLimits) {
  const SplitLimits limits{
      .page_size = 64, .max_rows = 32, .max_context = 1000, .max_positions = 32000};
  for (const int32_t group : {1, 3, 8, 16})
    EXPECT_TRUE(CheckSplit(Shape(2, group, 64), limits).ok());
  EXPECT_FALSE(CheckSplit(Shape(2, 17, 128), limits).ok());
  EXPECT_FALSE(CheckSplit(Shape(2, 6, 96), limits).ok());
  for (const int32_t page_size : {16, 48, 64, 512}) {
    SplitLimits other = limits;
    other.page_size = page_size;
    EXPECT_TRUE(CheckSplit(Shape(2, 6, 128), other).ok()) << page_size;
  }
  for (const int32_t page_size : {0, 8, 24}) {
    SplitLimits other = limits;
    other.page_size = page_size;
    const Status status = CheckSplit(Shape(2, 6, 128), other);
    EXPECT_FALSE(status.ok()) << page_size;
    EXPECT_NE(status.message().find("multiple of 16"), std::string::npos);
  }
  SplitLimits rows = limits;
  rows.max_rows = kSplitMaxRows + 1;
  EXPECT_FALSE(CheckSplit(Shape(2, 6, 128), rows).ok());
}

/// Cuts of rows that have partials, as the plan kernel counts them.
int64_t Partials(const std::vector<int32_t>& lengths) {
  int64_t partials = 0;
  for (const int32_t length : lengths) {
    if (length > kSplitTokens) partials += (length + kSplitTokens - 1) / kSplitTokens;
  }
  return partials;
}

TEST(SplitPlanTest, TheWorkspaceHoldsTheWorstBatch) {
  constexpr int32_t kGrid = 264;
  const AttentionShape shape = Shape(2, 6, 128);
  const int64_t partial_bytes =
      int64_t{SplitFragments(128, 1)} * kSplitFragmentVectors * kSplitVectorBytes;
  const std::vector<std::vector<int32_t>> batches = {
      {1}, {257, 257, 257}, {8000, 1, 300}, std::vector<int32_t>(64, 1025)};
  for (const std::vector<int32_t>& lengths : batches) {
    SplitLimits limits{.page_size = 16, .max_rows = static_cast<int32_t>(lengths.size())};
    for (const int32_t length : lengths) {
      limits.max_context = std::max(limits.max_context, length);
      limits.max_positions += length;
    }
    const SplitWorkspace layout = LayOutSplitWorkspace(shape, limits, kGrid);
    EXPECT_GE(layout.bytes - layout.partials, Partials(lengths) * 2 * partial_bytes);
    int64_t items = 0;
    for (const int32_t length : lengths) items += 2 * ((length + kSplitTokens - 1) / kSplitTokens);
    const int64_t item_bytes = int64_t{SplitItemWords(16)} * 4;
    EXPECT_GE(layout.merges - layout.items, items * item_bytes);
    EXPECT_GE(layout.merges - layout.items, kGrid * item_bytes);
    EXPECT_EQ(layout.partials % 256, 0);
  }
}

TEST(SplitPlanTest, ManyPositionsBoundTheWorkspaceWhereRowsMayBeLong) {
  const AttentionShape shape = Shape(8, 4, 128);
  SplitLimits limits{
      .page_size = 64, .max_rows = 256, .max_context = 131072, .max_positions = 1 << 20};
  EXPECT_LT(LayOutSplitWorkspace(shape, limits, 264).bytes, int64_t{200} << 20);
}

}  // namespace
}  // namespace decant
