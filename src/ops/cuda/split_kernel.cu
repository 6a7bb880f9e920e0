// Roles of a block's warps: one brings K, V and queries to shared memory, four compute, and three
// merge partials of all blocks. See docs/kernels.md.
#include <bit>
#include <cmath>
#include <utility>

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/cache_layout.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/split_compute.cuh"
#include "ops/cuda/split_kernel.h"
#include "ops/cuda/split_merge.cuh"
#include "ops/cuda/split_produce.cuh"

namespace decant {
namespace {

/// Blocks of which the registers of a multiprocessor must have room for two.
constexpr int kLeastBlocks = 2;

template <typename T, int kHeadDim, int kHeadTiles>
__global__ void __launch_bounds__(kSplitThreads, kLeastBlocks)
    SplitAttentionKernel(const __grid_constant__ SplitArgs args) {
  extern __shared__ __align__(1024) std::byte memory[];
  auto& shared = *reinterpret_cast<SplitShared<T, kHeadDim, kHeadTiles>*>(memory);
  const int warp = threadIdx.x / 32;
  LetLaterKernelsStart();
  // The first look at the work list is begun before the barriers are there.
  SplitProducer<T, kHeadDim, kHeadTiles> producer(args, shared);
  if (warp == 0) {
    producer.Begin();
    InitSplitBarriers(shared, args.stages);
    // It has set the barriers up itself: it need not wait for the warps that do.
    asm volatile("bar.arrive 2, %0;" ::"n"(kSplitThreads) : "memory");
    producer.Run();
    // The kernel after this one waits for this one only.
    if (args.beside && blockIdx.x == 0) WaitForEarlierKernels();
    return;
  }
  asm volatile("bar.sync 2, %0;" ::"n"(kSplitThreads) : "memory");
  int32_t rank = warp - 1 - kComputeWarps;
  if (warp <= kComputeWarps) {
    SplitCompute<T, kHeadDim, kHeadTiles>(args, shared, warp - 1).Run();
    rank = kMergeWarps + warp - 1;
  }
  MergePartials<T, kHeadDim, kHeadTiles>(args, rank);
}

/// Calls body with the kernel for a type, head_dim and group.
template <typename Body>
auto WithKernel(CudaType type, const AttentionShape& shape, Body&& body) {
  const auto choose_dim = [&]<typename T, int kHeadTiles>() {
    return shape.head_dim == 64 ? body(SplitAttentionKernel<T, 64, kHeadTiles>)
                                : body(SplitAttentionKernel<T, 128, kHeadTiles>);
  };
  const auto choose_tiles = [&]<typename T>() {
    return SplitHeadTiles(shape.group()) == 1 ? choose_dim.template operator()<T, 1>()
                                              : choose_dim.template operator()<T, 2>();
  };
  return type == CudaType::kF16 ? choose_tiles.template operator()<__half>()
                                : choose_tiles.template operator()<__nv_bfloat16>();
}

}  // namespace

Status PrepareSplitAttention(CudaType type, const AttentionShape& shape,
                             const SplitBlocks& blocks) {
  return WithKernel(type, shape, [&](auto kernel) -> Status {
    const auto check = [](cudaError_t error) {
      if (error == cudaSuccess) return Status();
      return Error(StatusCode::kInternal, "CUDA, preparing the decode kernel split: {}",
                   cudaGetErrorString(error));
    };
    DECANT_RETURN_IF_ERROR(check(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, blocks.shared_bytes)));
    DECANT_RETURN_IF_ERROR(check(cudaFuncSetAttribute(
        kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared)));
    int resident = 0;
    DECANT_RETURN_IF_ERROR(check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, kernel, kSplitThreads, blocks.shared_bytes)));
    // Merging warps wait for partials of other blocks: a block that is not resident never ends.
    if (resident < blocks.per_multiprocessor) {
      return Error(StatusCode::kFailedPrecondition,
                   "the decode kernel split needs {} blocks of {} bytes of shared memory on a "
                   "multiprocessor, this device takes {} (--decode-kernel rows works everywhere)",
                   blocks.per_multiprocessor, blocks.shared_bytes, resident);
    }
    return {};
  });
}

void LaunchSplitAttention(CudaType type, const AttentionShape& shape, const SplitBlocks& blocks,
                          const SplitLaunch& launch, cudaStream_t stream) {
  const int32_t together = TiledSlots(launch.cache.page_size);
  const SplitArgs args{
      .queries = static_cast<const std::byte*>(launch.queries),
      .attended = launch.attended,
      .cache = static_cast<const std::byte*>(launch.cache.k),
      .work = launch.work,
      .claim = launch.claim,
      .value_offset = launch.cache.page_size * shape.head_dim * 2,
      .scale_log2 = 1.4426950408889634F / std::sqrt(static_cast<float>(shape.head_dim)),
      .group = shape.group(),
      .stages = blocks.stages,
      .together = together,
      .together_log2 = std::countr_zero(static_cast<uint32_t>(together)),
      .group_bytes = together * shape.head_dim * 2,
      .item_words = SplitItemWords(together),
      .beside = launch.beside};
  WithKernel(type, shape, [&](auto kernel) {
    if (launch.overlapped) {
      LaunchOverlapped(kernel, blocks.grid, kSplitThreads, blocks.shared_bytes, stream, args);
    } else {
      kernel<<<blocks.grid, kSplitThreads, blocks.shared_bytes, stream>>>(args);
    }
  });
}

}  // namespace decant
