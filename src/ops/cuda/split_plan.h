#pragma once

#include <cstdint>

#include "base/status.h"
#include "ops/cuda/split_work.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// What a step may be.
struct SplitLimits {
  int32_t page_size = 0;
  int32_t max_rows = 0;
  int32_t max_context = 0;    ///< of one row
  int64_t max_positions = 0;  ///< of all rows together
};

/// What of a device decides how the kernel is laid out there.
struct SplitDevice {
  int32_t multiprocessors = 0;
  int32_t shared_bytes = 0;        ///< of a multiprocessor
  int32_t block_shared_bytes = 0;  ///< that one block may have
  int32_t reserved_bytes = 0;      ///< that every block takes beside what it asks for
};

/// How a block of the attention kernel is laid out for a device.
struct SplitBlocks {
  int32_t stages = 0;              ///< of kSplitStageTokens positions of K and V
  int32_t per_multiprocessor = 0;  ///< blocks that must be resident at once
  int32_t shared_bytes = 0;        ///< of one block
  int32_t grid = 0;                ///< blocks
};

inline constexpr int32_t kSplitThreads = 256;
/// Stages of shared memory at most.
inline constexpr int32_t kSplitMaxStages = 8;
/// Query heads that the tensor cores take at once.
inline constexpr int32_t kSplitHeadTile = 8;

constexpr int32_t SplitHeadTiles(int32_t group) {
  return (group + kSplitHeadTile - 1) / kSplitHeadTile;
}

/// Bytes of one stage.
constexpr int32_t SplitStageBytes(int32_t head_dim) { return 2 * kSplitStageTokens * head_dim * 2; }

/// Bytes of a block's shared memory before its stages: barriers, tasks, softmax weights and queries
/// (split_shared.cuh).
constexpr int32_t SplitFixedBytes(int32_t head_dim, int32_t head_tiles) {
  constexpr int32_t kAlignment = 1024;
  const int32_t barriers = 2 * (kSplitMaxStages + kSplitQuerySlots) * 8;
  const int32_t tasks = kSplitQuerySlots * 16;
  const int32_t exchange = 2 * kSplitComputeWarps * head_tiles * (32 * 8 + kSplitHeadTile * 4);
  const int32_t queries = kSplitQuerySlots * head_tiles * kSplitHeadTile * (head_dim + 8) * 2;
  return (barriers + tasks + exchange + queries + kAlignment - 1) / kAlignment * kAlignment;
}

/// Whether the kernel takes a model's shape, and the limits. Errors: with what is allowed.
Status CheckSplit(const AttentionShape& shape, const SplitLimits& limits);

/// Two blocks a multiprocessor where each has room for two stages or more, else one. Errors: a
/// device whose multiprocessors have too little shared memory.
Expected<SplitBlocks> ChooseSplitBlocks(const AttentionShape& shape, const SplitDevice& device);

/// Where the parts of the workspace begin, in bytes, each on 256.
struct SplitWorkspace {
  int64_t counts = 0;
  int64_t claims = 0;
  int64_t items = 0;
  int64_t merges = 0;
  int64_t partials = 0;
  int64_t bytes = 0;  ///< all of it
};

/// The workspace that steps within the limits need on `grid` blocks.
SplitWorkspace LayOutSplitWorkspace(const AttentionShape& shape, const SplitLimits& limits,
                                    int32_t grid);

}  // namespace decant
