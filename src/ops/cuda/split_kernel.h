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
};

/// Sets the kernel up on the current device. Errors: blocks.per_multiprocessor blocks do not fit
/// onto a multiprocessor.
Status PrepareSplitAttention(CudaType type, const AttentionShape& shape, const SplitBlocks& blocks);

void LaunchSplitAttention(CudaType type, const AttentionShape& shape, const SplitBlocks& blocks,
                          const SplitLaunch& launch, cudaStream_t stream);

}  // namespace decant
