#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/cuda/flash_attention.h"

namespace decant {
namespace {

/// Qwen2.5-1.5B's decode rows on an H200.
FlashDecodeShape Shape() {
  return {.type = CudaType::kF16,
          .rows = 32,
          .heads = 12,
          .kv_heads = 2,
          .head_dim = 128,
          .page_size = 256,
          .table_pages = 32,
          .multiprocessors = 132};
}

TEST(FlashSplitCountTest, ChoosesAsTheLibraryDoes) {
  // What the library's own num_splits_heuristic(blocks, slots, key_blocks, 128) returned.
  struct Choice {
    int32_t blocks, slots, key_blocks, splits;
  };
  for (const Choice& choice : std::vector<Choice>{{1, 264, 1, 1},
                                                  {1, 264, 64, 64},
                                                  {2, 264, 32, 32},
                                                  {16, 264, 63, 16},
                                                  {64, 264, 63, 4},
                                                  {64, 264, 64, 4},
                                                  {100, 264, 63, 5},
                                                  {211, 264, 63, 5},
                                                  {212, 264, 63, 1},
                                                  {1, 216, 1000, 112},
                                                  {12, 216, 40, 14},
                                                  {2, 168, 17, 17},
                                                  {1, 2, 9, 2}}) {
    EXPECT_EQ(FlashSplitCount(choice.blocks, choice.slots, choice.key_blocks, 128), choice.splits)
        << choice.blocks << " blocks, " << choice.slots << " slots, " << choice.key_blocks;
  }
}

TEST(FlashDecodePlanTest, CountsBlocksOfGroupsAndKeys) {
  FlashDecodeShape shape = Shape();
  EXPECT_EQ(FlashDecode::Plan(shape)->splits(), 4);  // 64 blocks, 64 pieces of 128 keys
  shape.heads = 2 * 65;                              // a group of 65 query heads takes two blocks
  EXPECT_EQ(FlashDecode::Plan(shape)->splits(), FlashSplitCount(128, 264, 64, 128));
  shape = Shape();
  shape.rows = 1;
  shape.head_dim = 64;  // 32 pieces of 256 keys
  EXPECT_EQ(FlashDecode::Plan(shape)->splits(), 32);
}

TEST(FlashDecodePlanTest, ChunksHaveBlocksOfQueriesForEveryHead) {
  FlashDecodeShape shape = Shape();
  shape.rows = 1;
  shape.queries = 512;  // 8 blocks of 64 for each of 12 heads
  EXPECT_EQ(FlashDecode::Plan(shape)->splits(), FlashSplitCount(96, 264, 64, 128));
  const size_t results = 512 * 12;
  const size_t splits = FlashSplitCount(96, 264, 64, 128);
  EXPECT_EQ(FlashDecode::Plan(shape)->workspace_bytes(), results * 4 * (1 + splits + splits * 128));
  shape.queries = 1 << 15;  // blocks enough: there are no partials that would have to fit
  EXPECT_EQ(FlashDecode::Plan(shape)->splits(), 1);
  shape.queries = 0;
  EXPECT_EQ(FlashDecode::Plan(shape).status().code(), StatusCode::kInvalidArgument);
}

TEST(FlashDecodePlanTest, WorkspaceHoldsPartialsOfEverySplit) {
  const FlashDecodeShape shape = Shape();
  const size_t results = 32 * 12;
  // One log-sum-exp a result; a split adds one and a vector of fp32.
  EXPECT_EQ(FlashDecode::Plan(shape)->workspace_bytes(), results * 4 * (1 + 4 + 4 * 128));

  FlashDecodeShape whole = shape;
  whole.rows = 1;
  whole.heads = 2;
  whole.multiprocessors = 1;  // one split; the merging kernel's 8 log-sum-exps, aligned
  ASSERT_EQ(FlashDecode::Plan(whole)->splits(), 1);
  EXPECT_EQ(FlashDecode::Plan(whole)->workspace_bytes(), 256U);
}

TEST(FlashDecodePlanTest, BoundCoversEverySmallerPlan) {
  for (const int32_t kv_heads : {1, 2, 8}) {
    FlashDecodeShape shape = Shape();
    shape.kv_heads = kv_heads;
    shape.heads = kv_heads * 6;
    const size_t bound = *FlashDecode::WorkspaceBound(shape);
    FlashDecodeShape smaller = shape;
    for (smaller.rows = 1; smaller.rows <= shape.rows; ++smaller.rows) {
      for (smaller.table_pages = 1; smaller.table_pages <= shape.table_pages;
           ++smaller.table_pages) {
        const size_t bytes = FlashDecode::Plan(smaller)->workspace_bytes();
        ASSERT_LE(bytes, bound) << smaller.rows << " rows, " << smaller.table_pages << " pages";
      }
    }
  }
}

TEST(FlashDecodePlanTest, RefusesWhatTheKernelCannotTake) {
  const auto refusal = [](void (*change)(FlashDecodeShape&)) {
    FlashDecodeShape shape = Shape();
    change(shape);
    const Expected<FlashDecode> plan = FlashDecode::Plan(shape);
    EXPECT_FALSE(FlashDecode::WorkspaceBound(shape).ok());
    return plan.ok() ? std::string("planned") : plan.status().message();
  };
  EXPECT_EQ(refusal([](FlashDecodeShape& s) { s.page_size = 64; }),
            "flash: page size is 64; allowed: multiples of 256");
  EXPECT_EQ(refusal([](FlashDecodeShape& s) { s.page_size = 0; }),
            "flash: page size is 0; allowed: multiples of 256");
  EXPECT_EQ(refusal([](FlashDecodeShape& s) { s.head_dim = 96; }),
            "flash: head_dim is 96; allowed: 64, 128");
  EXPECT_EQ(refusal([](FlashDecodeShape& s) { s.heads = 13; }),
            "flash: 13 heads do not divide into 2 KV heads");
  EXPECT_EQ(refusal([](FlashDecodeShape& s) { s.kv_heads = 0; }),
            "flash: 12 heads do not divide into 0 KV heads");
  EXPECT_NE(refusal([](FlashDecodeShape& s) { s.rows = 0; }), "planned");
  EXPECT_NE(refusal([](FlashDecodeShape& s) { s.rows = 40000; }), "planned");
  EXPECT_NE(refusal([](FlashDecodeShape& s) { s.table_pages = 0; }), "planned");
  EXPECT_NE(refusal([](FlashDecodeShape& s) { s.table_pages = 1 << 23; }), "planned");
  EXPECT_NE(refusal([](FlashDecodeShape& s) { s.multiprocessors = 0; }), "planned");
  EXPECT_NE(refusal([](FlashDecodeShape& s) {
              s.rows = 22000;  // 64 splits' partials do not fit into 32 bits
            }),
            "planned");
}

TEST(FlashDecodePlanTest, RunNamesAMissingOrMisalignedOperand) {
  const Status available = FlashAttentionAvailable();
  const FlashDecode plan = *FlashDecode::Plan(Shape());
  if (!available.ok()) {
    EXPECT_EQ(available.code(), StatusCode::kUnimplemented);
    EXPECT_EQ(plan.Run({}, nullptr).message(), available.message());
    return;
  }
  EXPECT_EQ(plan.Run({}, nullptr).message(), "flash: queries is null");

  alignas(16) std::byte memory[32] = {};
  FlashDecodeArgs args{.queries = memory,
                       .query_stride = 12 * 128,
                       .attended = memory,
                       .attended_stride = 12 * 128,
                       .k = memory,
                       .v = memory + 8,
                       .page_stride = 2 * 256 * 128,
                       .slot_stride = 128,
                       .head_stride = 256 * 128,
                       .block_tables = reinterpret_cast<const int32_t*>(memory),
                       .table_stride = 32,
                       .context_lens = reinterpret_cast<const int32_t*>(memory),
                       .workspace = memory,
                       .scale = 0.1F};
  EXPECT_EQ(plan.Run(args, nullptr).message(), "flash: v is not aligned to 16 bytes");
  args.v = memory;
  args.slot_stride = 132;
  EXPECT_EQ(plan.Run(args, nullptr).message(),
            "flash: slot_stride is 132; allowed: multiples of 8");
}

}  // namespace
}  // namespace decant
