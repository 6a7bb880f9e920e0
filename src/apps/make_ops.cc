#include "apps/make_ops.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "ops/cpu/cpu_ops.h"

#if DECANT_HAS_CUDA
#include "ops/cuda/cuda_ops.h"
#endif

namespace decant {
namespace {

Expected<std::unique_ptr<Ops>> MakeCpu(const OpsSpec& spec, int32_t threads) {
  return std::unique_ptr<Ops>(
      std::make_unique<CpuOps>(CpuOpsOptions{.shape = spec.shape,
                                             .decode_kernel = DecodeKernel::kRows,
                                             .threads = threads,
                                             .max_tokens = spec.max_tokens,
                                             .max_samples = spec.max_samples}));
}

Expected<std::unique_ptr<Ops>> MakeCuda([[maybe_unused]] const OpsSpec& spec,
                                        [[maybe_unused]] const Device& device,
                                        [[maybe_unused]] ComputeType compute_type,
                                        [[maybe_unused]] int32_t threads) {
#if DECANT_HAS_CUDA
  DECANT_ASSIGN_OR_RETURN(
      std::unique_ptr<CudaOps> ops,
      CudaOps::Create(
          {.shape = spec.shape,
           .type = compute_type == ComputeType::kBf16 ? CudaType::kBf16 : CudaType::kF16,
           .decode_kernel = DecodeKernel::kRows,
           .device = device.ordinal,
           .threads = threads,
           .max_tokens = spec.max_tokens,
           .max_rows = spec.max_rows,
           .max_samples = spec.max_samples,
           .max_model_len = spec.shape.max_positions}));
  return std::unique_ptr<Ops>(std::move(ops));
#else
  return Error(StatusCode::kUnimplemented, "this build has no CUDA backend");
#endif
}

}  // namespace

OpsFactory MakeOpsFactory(const Device& device, ComputeType compute_type, int32_t threads) {
  return [=](const OpsSpec& spec) -> Expected<std::unique_ptr<Ops>> {
    if (threads < 0 || threads > 1024) {
      return InvalidArgument("--threads is {}; allowed: 0 (one for each processor) to 1024",
                             threads);
    }
    const auto processors = static_cast<int32_t>(std::thread::hardware_concurrency());
    const int32_t used = threads > 0 ? threads : std::max(1, processors);
    return device.kind == DeviceKind::kCpu ? MakeCpu(spec, used)
                                           : MakeCuda(spec, device, compute_type, used);
  };
}

}  // namespace decant
