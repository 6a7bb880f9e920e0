#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/prompt_plan.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// The prompt kernel for compute capability 9.0 and the tiled cache layout: causal attention of all
/// of a step's prompt chunks in one launch, each query against all earlier positions of its request
/// and its own.
///
/// The bits of a query's result depend on its position and its history only: keys are cut into
/// ranges at positions that PromptRangeKeys says, each range is summed by itself, and ranges are
/// merged in order. Long histories are shared by several blocks. fp16 and bf16; head_dim 64 or 128;
/// any number of KV heads and of query heads to each; any page size that is a multiple of 16.
/// Nothing past a row's context is read.
class RangedPrompt {
 public:
  /// Allocates the workspace. Errors: unimplemented on other devices and for other shapes; failed
  /// precondition where the device cannot hold the blocks that wait for one another; no memory.
  static Expected<RangedPrompt> Create(CudaType type, const PromptPlanLimits& limits, int device);

  PromptPlanner& planner() { return planner_; }
  size_t workspace_bytes() const { return workspace_.size(); }

  /// Queues what a new plan needs before its first launch: `slots` as it says. To be called after
  /// the plan's upload and what wrote the histories, in the same stream: it is no overlapped
  /// launch, so all of that is done before anything after it begins. The kernel relies on it, as it
  /// reads its plan and the histories (not the chunks' own keys) without waiting for the kernel
  /// before.
  Status Reset(int32_t slots, cudaStream_t stream);

  /// One layer, by the plan of `step`; nothing where that has no items. queries, attended: [tokens,
  /// heads * head_dim]. The same plan can be launched any number of times, one after another. What
  /// is launched does not depend on the plan, only on where it lies: recorded as a graph, it serves
  /// other plans there.
  Status Launch(const StepArrays& step, const CachePages& cache, const void* queries,
                void* attended, cudaStream_t stream) const;

 private:
  /// Bytes of the workspace that a plan with so many slots uses.
  size_t UsedBytes(int32_t slots) const;
  RangedPrompt(CudaType type, const PromptPlanLimits& limits) : type_(type), planner_(limits) {}

  CudaType type_;
  PromptPlanner planner_;
  DeviceBuffer workspace_;  ///< Two counts, then slots of partial sums.
};

}  // namespace decant
