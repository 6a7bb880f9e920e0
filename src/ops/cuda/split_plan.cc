#include "ops/cuda/split_plan.h"

#include <algorithm>

#include "base/narrow.h"
#include "ops/cuda/cache_layout.h"

namespace decant {
namespace {

constexpr int32_t kMostHeadTiles = 2;
constexpr int32_t kMostBlocks = 2;  ///< that a multiprocessor has registers for
constexpr int32_t kLeastStages = 2;

/// Cuts of all rows for one KV head at most.
int64_t MostCuts(const SplitLimits& limits) {
  const int64_t of_row = CeilDiv(limits.max_context, kSplitTokens);
  return std::min(limits.max_rows * of_row, limits.max_positions / kSplitTokens + limits.max_rows);
}

}  // namespace

Status CheckSplit(const AttentionShape& shape, const SplitLimits& limits) {
  if (shape.head_dim != 64 && shape.head_dim != 128) {
    return Error(StatusCode::kUnimplemented,
                 "the decode kernel split takes heads of 64 and 128 dims, not {}", shape.head_dim);
  }
  if (shape.group() > kMostHeadTiles * kSplitHeadTile) {
    return Error(StatusCode::kUnimplemented,
                 "the decode kernel split takes 1 to {} query heads a KV head, not {}",
                 kMostHeadTiles * kSplitHeadTile, shape.group());
  }
  if (limits.page_size <= 0 || limits.page_size % 16 != 0) {
    return InvalidArgument("the decode kernel split takes pages of a multiple of 16, not {}",
                           limits.page_size);
  }
  if (limits.max_rows > kSplitMaxRows) {
    return InvalidArgument("the decode kernel split takes up to {} rows a step, not {}",
                           kSplitMaxRows, limits.max_rows);
  }
  return {};
}

Expected<SplitBlocks> ChooseSplitBlocks(const AttentionShape& shape, const SplitDevice& device) {
  const int32_t fixed = SplitFixedBytes(shape.head_dim, SplitHeadTiles(shape.group()));
  const int32_t stage = SplitStageBytes(shape.head_dim);
  for (int32_t blocks = kMostBlocks; blocks > 0; --blocks) {
    const int32_t room =
        std::min(device.shared_bytes / blocks - device.reserved_bytes, device.block_shared_bytes);
    const int32_t stages = std::min((room - fixed) / stage, kSplitMaxStages);
    if (stages < kLeastStages) continue;
    return SplitBlocks{.stages = stages,
                       .per_multiprocessor = blocks,
                       .shared_bytes = fixed + stages * stage,
                       .grid = blocks * device.multiprocessors};
  }
  return Error(StatusCode::kUnimplemented,
               "the decode kernel split needs {} bytes of shared memory, a multiprocessor of this "
               "device has {} (--decode-kernel rows works everywhere)",
               fixed + kLeastStages * stage, device.shared_bytes);
}

SplitWorkspace LayOutSplitWorkspace(const AttentionShape& shape, const SplitLimits& limits,
                                    int32_t grid) {
  constexpr int64_t kAlignment = 256;
  SplitWorkspace workspace;
  const auto take = [&](int64_t bytes) {
    const int64_t begin = workspace.bytes;
    workspace.bytes += RoundUp(bytes, kAlignment);
    return begin;
  };
  const int64_t cuts = MostCuts(limits) * shape.kv_heads;
  // Every block reads the item of its own number before it knows how many there are.
  const int64_t items = std::max<int64_t>(cuts, grid);
  const int64_t fragments = SplitFragments(shape.head_dim, SplitHeadTiles(shape.group()));
  workspace.counts = take(2 * sizeof(int32_t));
  workspace.claims = take(kSplitClaims * sizeof(uint32_t));
  workspace.items = take(items * SplitItemWords(TiledSlots(limits.page_size)) *
                         static_cast<int64_t>(sizeof(int32_t)));
  workspace.merges = take(int64_t{limits.max_rows} * shape.kv_heads * kSplitVectorBytes);
  workspace.partials = take(cuts * fragments * kSplitFragmentVectors * kSplitVectorBytes);
  return workspace;
}

}  // namespace decant
