#include <cmath>
#include <utility>

#include "ops/cuda/cache_layout.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/ranged_prompt.h"
#include "ops/cuda/ranged_prompt_parts.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "ops/cuda/ranged_prompt_consumer.cuh"
#include "ops/cuda/ranged_prompt_merge.cuh"
#include "ops/cuda/ranged_prompt_producer.cuh"
#endif

namespace decant {
namespace ranged_prompt {
namespace {

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1) Kernel(const __grid_constant__ Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::byte shared[];
  // Of 168 registers a thread, which the block begins with: 128 * 56 + 256 * 224 = 384 * 168.
  constexpr int kProducerRegisters = 56;
  constexpr int kConsumerRegisters = 224;
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  if (threadIdx.x == 0) {
    Barriers<kHeadDim>{SharedAddress(shared) + Places<kHeadDim>::kBarriersAt}.Init();
  }
  __syncthreads();
  if (warp < kPartThreads / 32) {
    GiveRegistersBack<kProducerRegisters>();
    if (warp == 0) Producer<kHeadDim>(args, shared).Run();
    if (warp == 1) Producer<kHeadDim>::TellTag(args, shared);
    return;
  }
  TakeRegisters<kConsumerRegisters>();
  Merge<T, kHeadDim> merge(args, shared, warp - kPartThreads / 32);
  merge.Prefetch();
  Consumer<T, kHeadDim> consumer(args, shared);
  consumer.Run();
  if (!merge.Any()) return;
  SyncNamed<kMergeBarrier, kConsumerThreads>();  // both parts are done with the ring
  merge.Run(consumer.Tag());
#endif
}

/// Calls body with the kernel of a type and head_dim, and the shared memory it takes.
template <typename Body>
auto WithKernel(CudaType type, int32_t head_dim, Body&& body) {
  if (type == CudaType::kF16) {
    return head_dim == 64 ? body(Kernel<__half, 64>, Places<64>::kBytes)
                          : body(Kernel<__half, 128>, Places<128>::kBytes);
  }
  return head_dim == 64 ? body(Kernel<__nv_bfloat16, 64>, Places<64>::kBytes)
                        : body(Kernel<__nv_bfloat16, 128>, Places<128>::kBytes);
}

}  // namespace
}  // namespace ranged_prompt

namespace {
constexpr size_t kCountBytes = 256;  ///< Two counts, each on a line of its own.
}  // namespace

namespace {

Expected<int> AskDevice(cudaDeviceAttr attribute, int device) {
  int value = 0;
  DECANT_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&value, attribute, device), "asking a device"));
  return value;
}

Status CheckDevice(int device) {
  DECANT_ASSIGN_OR_RETURN(const int major, AskDevice(cudaDevAttrComputeCapabilityMajor, device));
  DECANT_ASSIGN_OR_RETURN(const int minor, AskDevice(cudaDevAttrComputeCapabilityMinor, device));
  if (major == 9 && minor == 0) return {};
  return Error(StatusCode::kUnimplemented,
               "the ranged prompt kernel is for compute capability 9.0; this device has {}.{}",
               major, minor);
}

/// Lets the device run the kernel with the shared memory it needs, and makes sure that
/// `multiprocessors` blocks are resident at once: they wait for one another's sums.
Status PrepareKernel(CudaType type, int32_t head_dim, int32_t multiprocessors, int device) {
  cudaFuncAttributes attributes{};
  int blocks = 0;
  const cudaError_t error = ranged_prompt::WithKernel(type, head_dim, [&](auto kernel, int bytes) {
    cudaError_t result = cudaFuncGetAttributes(&attributes, kernel);
    if (result != cudaSuccess) return result;
    result = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (result != cudaSuccess) return result;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, ranged_prompt::kThreads,
                                                         bytes);
  });
  DECANT_RETURN_IF_ERROR(CudaStatus(error, "preparing the ranged prompt kernel"));
  constexpr int kFewRegisters = 64;  // as an empty kernel has, what a build without 90a gets
  if (attributes.numRegs < kFewRegisters) {
    return Error(StatusCode::kUnimplemented,
                 "the ranged prompt kernel is not in this build: its architectures lack 90a");
  }
  DECANT_ASSIGN_OR_RETURN(const int there, AskDevice(cudaDevAttrMultiProcessorCount, device));
  if (blocks * there < multiprocessors) {
    return Error(StatusCode::kFailedPrecondition,
                 "the ranged prompt kernel needs {} blocks at once; the device holds {} on each of "
                 "{} multiprocessors",
                 multiprocessors, blocks, there);
  }
  return {};
}

}  // namespace

Expected<RangedPrompt> RangedPrompt::Create(CudaType type, const PromptPlanLimits& limits,
                                            int device) {
  const int32_t head_dim = limits.shape.head_dim;
  if (head_dim != 64 && head_dim != 128) {
    return Error(StatusCode::kUnimplemented, "heads of {} dims; allowed: 64 and 128", head_dim);
  }
  DECANT_RETURN_IF_ERROR(CheckDevice(device));
  DECANT_RETURN_IF_ERROR(PrepareKernel(type, head_dim, limits.multiprocessors, device));
  RangedPrompt prompt(type, limits);
  DECANT_ASSIGN_OR_RETURN(
      prompt.workspace_,
      DeviceBuffer::Allocate(prompt.UsedBytes(prompt.planner_.most().slots), "prompt attention"));
  return Expected<RangedPrompt>(std::move(prompt));
}

size_t RangedPrompt::UsedBytes(int32_t slots) const {
  return kCountBytes + static_cast<size_t>(slots) * sizeof(float4) *
                           ranged_prompt::SlotPieces(planner_.shape().head_dim);
}

Status RangedPrompt::Reset(int32_t slots, cudaStream_t stream) {
  // Nothing counted yet, and every word of a partial sum as if launch -1 had written it.
  return CudaStatus(cudaMemsetAsync(workspace_.data(), 0xff, UsedBytes(slots), stream),
                    "clearing prompt attention's workspace");
}

Status RangedPrompt::Launch(const StepArrays& step, const CachePages& cache, const void* queries,
                            void* attended, cudaStream_t stream) const {
  if (step.prompt_plan.items == 0) return {};
  const AttentionShape& shape = planner_.shape();
  constexpr int64_t kElementBytes = 2;
  const ranged_prompt::Args args{
      .queries = queries,
      .attended = attended,
      .cache = static_cast<const std::byte*>(cache.k),
      .page_bytes = cache.page_stride * kElementBytes,
      .head_bytes = cache.head_stride * kElementBytes,
      .values_bytes =
          (static_cast<const std::byte*>(cache.v) - static_cast<const std::byte*>(cache.k)),
      .tiled_slots = TiledSlots(cache.page_size),
      .by_page = Divider(cache.page_size / 16),
      .by_group = Divider(shape.group()),
      .heads = shape.heads,
      .group = shape.group(),
      .scale_log2 = 1.4426950408889634F / std::sqrt(static_cast<float>(shape.head_dim)),
      .block_tables = step.block_tables,
      .items = step.prompt_items,
      .merges = step.prompt_merges,
      .counts = step.prompt_counts,
      .claims = workspace_.As<unsigned long long>(),
      .arrivals = reinterpret_cast<unsigned long long*>(workspace_.data() + kCountBytes / 2),
      .partials = reinterpret_cast<float4*>(workspace_.data() + kCountBytes)};
  const dim3 grid(planner_.multiprocessors());
  ranged_prompt::WithKernel(type_, shape.head_dim, [&](auto kernel, int bytes) {
    LaunchOverlapped(kernel, grid, ranged_prompt::kThreads, bytes, stream, args);
  });
  return CudaStatus(cudaGetLastError(), "prompt attention");
}

}  // namespace decant
