#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "base/status.h"
#include "ops/cpu/thread_pool.h"
#include "ops/cuda/device.h"
#include "ops/cuda/linear.h"
#include "ops/ops.h"

namespace decant {

/// Brings weight matrices to the device: host threads decode rows to fp32 into pinned memory while
/// the device fetches the piece before and rounds it to the weights' type.
class WeightUpload {
 public:
  static Expected<WeightUpload> Create(CudaType type, ThreadPool& pool);

  /// The rows of all sources, one after another, as one matrix; each column times its gain before
  /// it is rounded, where there are gains ([cols] in device memory, or null). Returns once the last
  /// row has been read; the device may still be at work.
  Expected<std::unique_ptr<CudaWeight>> Upload(std::initializer_list<const RowSource*> sources,
                                               const float* gains, const CudaStream& stream);

 private:
  struct Stage {
    PinnedBuffer host;
    DeviceBuffer device;  ///< fp32, as it came
    CudaEvent done;
    bool used = false;
  };

  CudaType type_ = CudaType::kF16;
  ThreadPool* pool_ = nullptr;
  std::array<Stage, 2> stages_;
  int turn_ = 0;
};

}  // namespace decant
