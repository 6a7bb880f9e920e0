#include "ops/cuda/invariant_linear_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

/// The blocks that ranges shall come to. Of an H100 or H200, but fixed: results must not depend on
/// the device that computes them.
constexpr int32_t kWantedBlocks = 132;
/// Blocks of a cluster at most, on any device.
constexpr int32_t kMaxSplits = 8;
/// A weight of so many row blocks is not cut.
constexpr int32_t kUncutRowBlocks = 110;

/// What a block may have so that two fit: of a multiprocessor's 228 KiB each block costs 1 KiB more.
constexpr int32_t kSharedBytesShared = 113 * 1024;

}  // namespace

int32_t LinearSplits(int32_t rows, int32_t cols) {
  const int32_t row_blocks = CeilDiv(rows, kLinearBlock);
  if (row_blocks >= kUncutRowBlocks) return 1;
  const int32_t column_blocks = CeilDiv(cols, kLinearBlock);
  const int32_t wanted = std::clamp(kWantedBlocks / row_blocks, 2, kMaxSplits);
  return std::max(1, std::min(wanted, column_blocks / 2));
}

int64_t PackedLinearBytes(int64_t rows, int64_t cols) {
  return CeilDiv<int64_t>(rows, kLinearBlock) * CeilDiv<int64_t>(cols, kLinearBlock) *
         kLinearBlockBytes;
}

std::optional<LinearPlan> PlanLinearWith(int32_t index, int32_t rows, int32_t cols, int32_t tokens,
                                         const LinearDevice& device) {
  const LinearTile& tile = kLinearTiles[index];
  LinearPlan plan;
  plan.tile = index;
  plan.cut.column_blocks = CeilDiv(cols, kLinearBlock);
  plan.cut.splits = LinearSplits(rows, cols);
  if ((tile.mode == LinearMode::kChain) != (plan.cut.splits == 1)) return std::nullopt;
  plan.cut.row_tiles =
      CeilDiv(CeilDiv(rows, kLinearBlock), tile.row_blocks() * tile.multicast);
  plan.cut.token_tiles = CeilDiv(tokens, tile.tokens);
  plan.streams_weight = plan.cut.token_tiles == 1;

  const int32_t workers = tile.multicast == 1 ? device.multiprocessors : device.pairs;
  const int32_t tiles = plan.cut.tiles();
  if (tile.mode == LinearMode::kCluster) {
    plan.blocks = tiles * plan.cut.splits;
    plan.cluster = plan.cut.splits;
  } else {
    plan.blocks = std::min(tiles, workers) * tile.multicast;
    plan.cluster = tile.multicast;
    plan.waits = tile.mode == LinearMode::kChain && tiles > workers;
  }

  // Two blocks a multiprocessor, so that a kernel's loads begin while the one before it ends, where
  // the ring is deep enough for that.
  const bool shares = tile.mode == LinearMode::kCluster;
  const int32_t room = shares ? kSharedBytesShared : kLinearSharedBytes;
  const int32_t longest = CeilDiv(plan.cut.column_blocks,
                                  tile.mode == LinearMode::kCluster ? plan.cut.splits : 1);
  const int32_t merge = LinearMergeBytes(tile, plan.cut.splits);
  plan.merges_in_ring = shares && tile.groups > 1;
  const int32_t fixed = LinearSharedBytes(tile, plan.cut.splits, 0, plan.merges_in_ring);
  plan.stages = (room - fixed) / (tile.stage_bytes() + 16);
  if (tile.mode == LinearMode::kCluster) plan.stages = std::min(plan.stages, longest);
  if (plan.merges_in_ring) plan.stages = std::max(plan.stages, CeilDiv(merge, tile.stage_bytes()));
  plan.shared_bytes =
      LinearSharedBytes(tile, plan.cut.splits, plan.stages, plan.merges_in_ring);
  if (plan.stages < 2 && plan.stages < longest) return std::nullopt;
  if (plan.shared_bytes > room) return std::nullopt;
  return plan;
}

LinearPlan PlanLinear(int32_t rows, int32_t cols, int32_t tokens, const LinearDevice& device) {
  for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
    const auto plan = PlanLinearWith(tile, rows, cols, tokens, device);
    if (plan && kLinearTiles[tile].tokens >= std::min(tokens, 128)) return *plan;
  }
  DECANT_CHECK(false, "no tile for a weight of {} x {} and {} tokens", rows, cols, tokens);
  return {};
}

}  // namespace decant
