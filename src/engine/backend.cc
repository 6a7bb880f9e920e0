#include "engine/backend.h"

#include <utility>

#include "ops/cpu/cpu_ops.h"
#include "runtime/forward_runner.h"

#if DECANT_HAS_CUDA
#include "ops/cuda/cuda_ops.h"
#include "runtime/cuda_runner.h"
#endif

namespace decant {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(const BackendOptions& options, std::unique_ptr<Ops> ops)
      : max_rows_(options.max_rows), ops_(std::move(ops)) {}

  Ops& ops() override { return *ops_; }
  Expected<int64_t> DefaultPoolBytes(double /*utilization*/) const override {
    constexpr int64_t kTwoGib = int64_t{2} << 30;
    return kTwoGib;
  }
  int64_t workspace_bytes() const override { return 0; }
  Expected<std::unique_ptr<StepRunner>> MakeRunner(const DecoderWeights& weights,
                                                   LogitsObserver observer) override {
    return std::unique_ptr<StepRunner>(
        std::make_unique<ForwardRunner>(*ops_, weights, max_rows_, std::move(observer)));
  }

 private:
  int32_t max_rows_;
  std::unique_ptr<Ops> ops_;
};

Expected<std::unique_ptr<Ops>> MakeCpuOps(const BackendOptions& options) {
  if (options.compute_type == ComputeType::kF16) {
    return Error(StatusCode::kUnimplemented,
                 "--dtype fp16 is for --device cuda; the CPU computes in bf16, or in fp32 where it "
                 "has no bf16 products");
  }
  if (options.prompt_kernel == PromptKernel::kFlash) {
    return Error(StatusCode::kUnimplemented,
                 "FlashAttention's prompt kernel runs on CUDA only, not on the CPU");
  }
  std::unique_ptr<Ops> ops =
      std::make_unique<CpuOps>(CpuOpsOptions{.shape = options.shape,
                                             .decode_kernel = options.decode_kernel,
                                             .linear = options.linear,
                                             .weight_copies = options.weight_copies,
                                             .threads = options.threads,
                                             .max_tokens = options.max_tokens,
                                             .max_samples = options.max_samples});
  // Where the kernel is one that this backend lacks, this says so.
  DECANT_RETURN_IF_ERROR(ops->UseDecodeKernel(options.decode_kernel));
  return ops;
}

Expected<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options,
                                                  const OpsWrapper& wrapper) {
  DECANT_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, MakeCpuOps(options));
  if (wrapper) ops = wrapper(std::move(ops), options.shape);
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(options, std::move(ops)));
}

#if DECANT_HAS_CUDA

class CudaBackend : public Backend {
 public:
  CudaBackend(const BackendOptions& options, CudaOps& cuda, std::unique_ptr<Ops> ops)
      : options_(options), cuda_(cuda), ops_(std::move(ops)) {}

  Ops& ops() override { return *ops_; }
  Expected<int64_t> DefaultPoolBytes(double utilization) const override {
    DECANT_ASSIGN_OR_RETURN(const CudaDeviceInfo now, OpenCudaDevice(cuda_.device().ordinal));
    const auto usable = static_cast<int64_t>(utilization * static_cast<double>(now.memory_bytes));
    return usable - (now.memory_bytes - now.free_bytes);
  }
  int64_t workspace_bytes() const override { return cuda_.workspace_bytes(); }
  Expected<std::unique_ptr<StepRunner>> MakeRunner(const DecoderWeights& weights,
                                                   LogitsObserver observer) override {
    DECANT_ASSIGN_OR_RETURN(std::unique_ptr<CudaRunner> runner,
                            CudaRunner::Create(*ops_, cuda_, weights,
                                               {.max_rows = options_.max_rows,
                                                .max_samples = options_.max_samples,
                                                .vocab = options_.shape.vocab,
                                                .graphs = options_.graphs},
                                               std::move(observer)));
    return std::unique_ptr<StepRunner>(std::move(runner));
  }

 private:
  BackendOptions options_;
  CudaOps& cuda_;  ///< What `ops_` is or wraps.
  std::unique_ptr<Ops> ops_;
};

Expected<std::unique_ptr<CudaOps>> MakeCudaOps(const BackendOptions& options) {
  return CudaOps::Create(
      {.shape = options.shape,
       .type = options.compute_type == ComputeType::kBf16 ? CudaType::kBf16 : CudaType::kF16,
       .decode_kernel = options.decode_kernel,
       .prompt_kernel = options.prompt_kernel,
       .linear = options.linear,
       .device = options.device.ordinal,
       .threads = options.threads,
       .max_tokens = options.max_tokens,
       .max_rows = options.max_rows,
       .max_samples = options.max_samples,
       .max_model_len = options.max_model_len});
}

Expected<std::unique_ptr<Backend>> MakeCudaBackend(const BackendOptions& options,
                                                   const OpsWrapper& wrapper) {
  DECANT_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> cuda, MakeCudaOps(options));
  CudaOps& inner = *cuda;
  std::unique_ptr<Ops> ops = std::move(cuda);
  if (wrapper) ops = wrapper(std::move(ops), options.shape);
  return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(options, inner, std::move(ops)));
}

#endif

}  // namespace

Expected<std::unique_ptr<Ops>> MakeOps(const BackendOptions& options) {
  if (options.device.kind == DeviceKind::kCpu) return MakeCpuOps(options);
#if DECANT_HAS_CUDA
  DECANT_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> ops, MakeCudaOps(options));
  return std::unique_ptr<Ops>(std::move(ops));
#else
  return Error(StatusCode::kUnimplemented, "this build has no CUDA backend");
#endif
}

Expected<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options,
                                               const OpsWrapper& wrapper) {
  if (options.device.kind == DeviceKind::kCpu) return MakeCpuBackend(options, wrapper);
#if DECANT_HAS_CUDA
  return MakeCudaBackend(options, wrapper);
#else
  return Error(StatusCode::kUnimplemented, "this build has no CUDA backend");
#endif
}

}  // namespace decant
