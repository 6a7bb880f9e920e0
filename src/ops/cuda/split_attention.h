#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/split_kernel.h"
#include "ops/cuda/split_plan.h"
#include "ops/cuda/step_arrays.h"
#include "ops/kernel_overlap.h"

namespace decant {

/// The decode kernel `split`: histories are cut every 256 positions from position 0, whatever the
/// batch; the cuts of all rows are one list of work that the blocks of one launch share; what the
/// cuts give is merged in order of the positions. A row's bits depend on its own history and query
/// only. See docs/kernels.md.
///
/// Plan makes the list once a step, on the device; Run computes one layer by it. Both only queue
/// work; all that one object queues must be queued on one stream, or wait for one another.
class SplitDecode {
 public:
  /// Errors: shapes, page sizes or limits that the kernel does not take, with what it takes; a
  /// device where the blocks of a launch would not all be resident at once, which they must be, as
  /// they wait for one another's partials; no room.
  static Expected<SplitDecode> Create(CudaType type, const AttentionShape& shape,
                                      const SplitLimits& limits, const CudaDeviceInfo& device);

  /// Plans a step's decode rows. Their context_lens must be at least 1. What earlier steps wrote to
  /// the cache is complete once the plan runs. Errors: more rows than the limits.
  Status Plan(const StepArrays& step, cudaStream_t stream);

  /// attended [tokens, heads * head_dim] of the decode rows of the step planned last; queries have
  /// the same shape. `cache`: a layer in the tiled layout. Nothing past a row's context is read.
  Status Run(const CachePages& cache, const void* queries, void* attended, cudaStream_t stream,
             KernelOverlap overlap = KernelOverlap::kAllowed);
  /// The same while the kernel before it in the stream still runs, which must be RangedPrompt's of
  /// the same step, with nothing in between: see SplitLaunch::beside.
  Status RunBeside(const CachePages& cache, const void* queries, void* attended,
                   cudaStream_t stream);

  size_t workspace_bytes() const { return workspace_.size(); }
  const SplitBlocks& blocks() const { return blocks_; }

  /// For tests: another number of blocks, from 1 to the number that Create chose.
  void UseGrid(int32_t grid) { blocks_.grid = grid; }

 private:
  SplitDecode() = default;

  /// Queues one layer, with the launch's cache, queries, attended, overlapped and beside.
  Status Launch(SplitLaunch launch, cudaStream_t stream);

  CudaType type_ = CudaType::kF16;
  AttentionShape shape_;
  SplitLimits limits_;
  SplitBlocks blocks_;
  DeviceBuffer workspace_;
  SplitWork work_{};
  int32_t rows_ = 0;       ///< planned
  uint32_t launches_ = 0;  ///< so far
};

}  // namespace decant
