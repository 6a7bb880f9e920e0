#include "ops/cuda/invariant_linear_plan.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ops/cuda/linear_shapes.h"

namespace decant {
namespace {

constexpr LinearDevice kH200{.multiprocessors = 132, .pairs = 66};
constexpr LinearDevice kSmall{.multiprocessors = 78, .pairs = 36};

const std::vector<int32_t> kTokenCounts = {1,   2,   8,   9,   16,  32,  33,  64,   65,   100,
                                           128, 129, 256, 257, 512, 544, 576, 1000, 1024, 2048};

/// Enough to see every way of cutting; the largest products have a hundred times more.
constexpr int32_t kMostTiles = 1500;

std::vector<LinearLayer> AllLayers() {
  std::vector<LinearLayer> all;
  for (const LinearModel& model : kLinearModels) {
    for (const LinearLayer& layer : LinearLayers(model)) all.push_back(layer);
  }
  all.push_back({"odd", 1001, 584});
  all.push_back({"narrow", 1, 8});
  all.push_back({"odd uncut", 7230, 72});
  return all;
}

/// How often each column block of each tile is computed, and that what is handed over can be: the
/// next worker needs it, and the one that hands it over waits for nobody before it has.
template <LinearMode kMode>
void CheckWalk(const LinearPlan& plan) {
  const LinearCut& cut = plan.cut;
  const bool clustered = kMode == LinearMode::kCluster;
  const int32_t workers = plan.blocks / plan.cluster * (clustered ? cut.splits : 1);
  std::vector<int> visits(static_cast<size_t>(cut.tiles()) * cut.column_blocks, 0);
  bool handed_over = false;  // by the worker before
  for (int32_t worker = 0; worker < workers; ++worker) {
    bool takes = false;
    bool gives = false;
    bool first = true;
    for (LinearWalk<kMode> walk(cut, clustered ? worker / cut.splits : worker, workers,
                                clustered ? worker % cut.splits : 0);
         walk.valid(); walk.Next()) {
      ASSERT_GE(walk.row_tile(), 0);
      ASSERT_LT(walk.row_tile(), cut.row_tiles);
      ASSERT_GE(walk.token_tile(), 0);
      ASSERT_LT(walk.token_tile(), cut.token_tiles);
      ASSERT_LT(walk.begin(), walk.end());
      const int64_t tile = int64_t{walk.row_tile()} * cut.token_tiles + walk.token_tile();
      for (int32_t block = walk.begin(); block < walk.end(); ++block) {
        ++visits[tile * cut.column_blocks + block];
      }
      if (kMode == LinearMode::kChain) {
        takes |= walk.continues();
        if (!walk.finishes()) {
          ASSERT_TRUE(first && !walk.continues());
          gives = true;
        }
      }
      first = false;
    }
    if (kMode == LinearMode::kChain) {
      ASSERT_EQ(takes, handed_over);
      handed_over = gives;
    }
  }
  ASSERT_FALSE(handed_over);
  for (const int count : visits) ASSERT_EQ(count, 1);
}

void CheckPlan(const LinearPlan& plan, const LinearDevice& device) {
  const LinearTile& tile = kLinearTiles[plan.tile];
  ASSERT_GE(plan.stages, 1);
  ASSERT_LE(plan.shared_bytes, kLinearSharedBytes);
  ASSERT_LE(plan.cluster, 8);
  ASSERT_EQ(plan.blocks % plan.cluster, 0);
  if (plan.waits) {
    // All blocks are resident: one fits on a multiprocessor, and so many pairs.
    ASSERT_LE(plan.blocks, tile.multicast == 2 ? 2 * device.pairs : device.multiprocessors);
  }
  switch (tile.mode) {
    case LinearMode::kCluster:
      ASSERT_EQ(plan.cluster, plan.cut.splits);
      ASSERT_NO_FATAL_FAILURE(CheckWalk<LinearMode::kCluster>(plan));
      if (plan.merges_in_ring) {
        ASSERT_LE(LinearMergeBytes(tile, plan.cut.splits), plan.stages * tile.stage_bytes());
      }
      break;
    case LinearMode::kChain:
      ASSERT_EQ(plan.cut.splits, 1);
      ASSERT_NO_FATAL_FAILURE(CheckWalk<LinearMode::kChain>(plan));
      break;
    case LinearMode::kSequential:
      ASSERT_NO_FATAL_FAILURE(CheckWalk<LinearMode::kSequential>(plan));
      break;
    case LinearMode::kTokenRows:
      ASSERT_EQ(plan.cut.splits, 1);
      ASSERT_EQ(plan.cut.token_tiles, 1);
      ASSERT_NO_FATAL_FAILURE(CheckWalk<LinearMode::kTokenRows>(plan));
      break;
  }
}

TEST(InvariantLinearPlan, EveryTileCoversEveryShapeOnce) {
  int plans = 0;
  for (const LinearDevice& device : {kH200, kSmall}) {
    for (const LinearLayer& layer : AllLayers()) {
      for (const int32_t tokens : kTokenCounts) {
        for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
          for (const LinearRoom room : {LinearRoom::kWhole, LinearRoom::kHalf}) {
            const LinearProblem problem{.rows = layer.rows,
                                        .cols = layer.cols,
                                        .splits = LinearSplits(layer.rows, layer.cols),
                                        .tokens = tokens,
                                        .token_rows_unit = 8};
            const auto plan = PlanLinearWith(tile, room, problem, device);
            if (!plan || plan->cut.tiles() > kMostTiles) continue;
            ++plans;
            ASSERT_NO_FATAL_FAILURE(CheckPlan(*plan, device))
                << layer.rows << " x " << layer.cols << ", " << tokens << " tokens, tile " << tile;
          }
        }
      }
    }
  }
  EXPECT_GT(plans, 1000);
}

TEST(InvariantLinearPlan, ThereIsAPlanForEverything) {
  for (const LinearDevice& device : {kH200, kSmall}) {
    for (const LinearLayer& layer : AllLayers()) {
      for (int32_t tokens = 1; tokens <= 2048; tokens += tokens < 64 ? 1 : 61) {
        const LinearProblem problem{.rows = layer.rows,
                                    .cols = layer.cols,
                                    .splits = LinearSplits(layer.rows, layer.cols),
                                    .tokens = tokens};
        ASSERT_FALSE(RankLinearChoices(problem, device).empty())
            << layer.rows << " x " << layer.cols << ", " << tokens;
      }
    }
  }
}

/// Choices of kTokenRows for a weight of one range; `whole` of them give each block one tile.
std::pair<int, int> CountTokenRows(const LinearProblem& problem) {
  int count = 0;
  int whole = 0;
  for (const LinearChoice& choice : RankLinearChoices(problem, kH200)) {
    if (!kLinearTiles[choice.tile].token_rows()) continue;
    const auto plan = PlanLinearWith(choice.tile, choice.room, problem, kH200);
    ++count;
    whole += plan->blocks == plan->cut.tiles() ? 1 : 0;
  }
  return {count, whole};
}

TEST(InvariantLinearPlan, FewTokensCanBeRows) {
  for (int32_t tokens = 1; tokens <= 160; ++tokens) {
    // qwen2.5-1.5b: gate and up in one wave; the head in tiles in turn.
    LinearProblem gate_up{.rows = 17920, .cols = 1536, .tokens = tokens, .token_rows_unit = 8};
    const auto [count, whole] = CountTokenRows(gate_up);
    EXPECT_EQ(count > 0, tokens <= 128) << tokens;
    EXPECT_EQ(whole, count) << tokens;
    gate_up.token_rows_unit = 0;
    EXPECT_EQ(CountTokenRows(gate_up).first, 0) << tokens;
    for (const int32_t unit : {8, 16}) {
      const LinearProblem head{
          .rows = 151936, .cols = 1536, .tokens = tokens, .token_rows_unit = unit};
      EXPECT_EQ(CountTokenRows(head).first > 0, tokens <= 128) << tokens << ", unit " << unit;
      EXPECT_EQ(CountTokenRows(head).second, 0) << tokens << ", unit " << unit;
    }
  }
  const LinearProblem cut{.rows = 2048, .cols = 1536, .splits = 4, .token_rows_unit = 8};
  EXPECT_EQ(CountTokenRows(cut).first, 0);
}

TEST(InvariantLinearPlan, TilesHaveWholeUnitsOfTokenRows) {
  int plans = 0;
  for (const int32_t tokens : {1, 9, 17, 33, 65}) {
    const LinearProblem problem{
        .rows = 151936, .cols = 1536, .tokens = tokens, .token_rows_unit = 16};
    for (const LinearChoice& choice : RankLinearChoices(problem, kH200)) {
      const LinearTile& tile = kLinearTiles[choice.tile];
      if (!tile.token_rows()) continue;
      ++plans;
      EXPECT_EQ(tile.columns % 16, 0) << tokens << " tokens, tile " << choice.tile;
    }
  }
  EXPECT_GT(plans, 0);
}

// Results depend on these: they change only with a reason.
TEST(InvariantLinearPlan, SplitsDependOnTheWeightAlone) {
  EXPECT_EQ(LinearSplits(2048, 1536), 4);    // qwen2.5-1.5b: qkv
  EXPECT_EQ(LinearSplits(1536, 1536), 4);    // o
  EXPECT_EQ(LinearSplits(17920, 1536), 1);   // gate and up
  EXPECT_EQ(LinearSplits(1536, 8960), 8);    // down
  EXPECT_EQ(LinearSplits(151936, 1536), 1);  // head
  EXPECT_EQ(LinearSplits(576, 576), 1);      // few column blocks
  EXPECT_EQ(LinearSplits(4608, 3584), 2);    // qwen2.5-7b: qkv
  EXPECT_EQ(LinearSplits(3584, 18944), 3);   // down
  EXPECT_EQ(LinearSplits(1, 8), 1);
}

}  // namespace
}  // namespace decant
