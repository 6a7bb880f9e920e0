#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/prompt_plan.h"
#include "ops/cuda/step_arrays.h"
#include "ops/cuda/step_packing.h"
#include "ops/step_batch.h"

namespace decant {

/// Brings steps' batches to the device: everything that a step needs is packed into one pinned
/// buffer and copied at once. Two buffers take turns, so that a step can be packed while the one
/// before it runs; on the device all steps' arrays lie at the same places, in the order of the
/// stream, so that a graph of one step's kernels serves the next.
class StepUpload {
 public:
  static Expected<StepUpload> Create(const StepLimits& limits);

  /// Packs `batch` and queues its copy. Rows of query length 1 must come first. Waits only for the
  /// copy of the step before the last. Poisons unused table entries. With a planner, also plans the
  /// step for the ranged prompt kernel. `few_strides`: the stride of block tables is rounded up to
  /// a power of two, so that few graphs serve all steps.
  Expected<StepArrays> Send(const StepBatch& batch, PromptPlanner* planner,
                            const CudaStream& stream, bool few_strides);

 private:
  struct Slot {
    PinnedBuffer host;
    CudaEvent copied;
    bool used = false;
  };

  StepLimits limits_;
  int64_t capacity_ = 0;  ///< int32s of a slot
  DeviceBuffer device_;
  std::array<Slot, 2> slots_;
  int turn_ = 0;
};

}  // namespace decant
