#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "ops/cuda/split_plan.h"
#include "ops/cuda/split_work.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// One launch of the attention kernel.
struct SplitLaunch {
  const void* queries = nullptr;  ///< [rows, heads * head_dim]
  void* attended = nullptr;       ///< [rows, heads * head_dim]
  CachePages cache;               ///< tiled
  SplitWork work{};
  uint32_t* claim = nullptr;  ///< one of work.claims that no launch under way has
  bool overlapped = true;     ///< LaunchOverlapped
  /// The kernel before this one in the stream neither writes what this one reads nor the other way
  /// round, and lets this one start only once all of its blocks are resident and have waited for
  /// what ran before it: the prompt attention of the same step. Then this one runs while that one
  /// still does, and ends after it.
  bool beside = false;
};

/// Sets the kernel up on the current device. Errors: blocks.per_multiprocessor blocks do not fit
/// onto a multiprocessor.
Status PrepareSplitAttention(CudaType type, const AttentionShape& shape, const SplitBlocks& blocks);

void LaunchSplitAttention(CudaType type, const AttentionShape& shape, const SplitBlocks& blocks,
                          const SplitLaunch& launch, cudaStream_t stream);

}  // namespace decant
