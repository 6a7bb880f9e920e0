#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/step_packing.h"
#include "ops/step_batch.h"

namespace decant {

/// Brings steps' batches to the device: everything that a step needs is packed into one pinned
/// buffer, which one kernel reads. Two buffers take turns, so that a step can be packed while the
/// one before it runs; on the device all steps' arrays lie at the same places, in the order of the
/// stream. A kernel, and no copy: it begins a microsecond after the step before has ended, where
/// the copy engine would have to be called and waited for.
class StepUpload {
 public:
  static Expected<StepUpload> Create(const StepLimits& limits);

  /// StepPacker::Pack, and its copies queued. Waits only for those of the step before the last.
  Expected<StepArrays> Send(const StepBatch& batch, PromptPlanner* planner, StepShape shape,
                            const GraphDraws& draws, const CudaStream& stream);

 private:
  struct Slot {
    PinnedBuffer host;
    CudaEvent copied;
    bool used = false;
  };

  explicit StepUpload(const StepLimits& limits) : packer_(limits) {}

  StepPacker packer_;
  DeviceBuffer device_;
  std::array<Slot, 2> slots_;
  int turn_ = 0;
};

/// Does `copies` from pinned host memory to device memory.
void LaunchStepCopies(const StepCopies& copies, const int32_t* from, int32_t* to,
                      cudaStream_t stream);

}  // namespace decant
