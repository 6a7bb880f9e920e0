#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/split_kernel.h"
#include "ops/cuda/split_work.h"
#include "ops/cuda/tensor_core.cuh"

namespace decant {

/// Warps of a block: one that copies, then these.
inline constexpr int kComputeWarps = kSplitComputeWarps;
inline constexpr int kMergeWarps = 3;
static_assert(32 * (1 + kComputeWarps + kMergeWarps) == kSplitThreads);
static_assert(16 * kComputeWarps == kSplitStageTokens, "a computing warp takes 16 positions");

inline constexpr int kQuerySlots = kSplitQuerySlots;
inline constexpr unsigned kAllLanes = 0xffffffffU;

/// What the attention kernel is told.
struct SplitArgs {
  const std::byte* queries;  ///< [rows, heads, head_dim]
  void* attended;            ///< [rows, heads, head_dim]
  const std::byte* cache;    ///< the layer's first block of K
  SplitWork work;
  uint32_t* claim;       ///< zero before and after the launch
  int32_t value_offset;  ///< bytes from a block of K to that of V
  float scale_log2;      ///< log2(e) / sqrt(head_dim): powers of two are what is computed
  int32_t group;         ///< query heads a KV head
  int32_t stages;
  int32_t together;  ///< slots of a group (TiledSlots), a power of two
  int32_t together_log2;
  int32_t group_bytes;  ///< together * head_dim elements
  int32_t item_words;
  bool beside;  ///< SplitLaunch::beside
};

/// An item as the computing warps see it.
struct SplitTask {
  int32_t row_head;
  int32_t tokens;  ///< 0: there is no more
  int32_t partial;
  int32_t unused;
};

/// A block's shared memory before its stages.
template <typename T, int kHeadDim, int kHeadTiles>
struct SplitShared {
  static constexpr int kHeads = kHeadTiles * kSplitHeadTile;

  uint64_t stage_full[kSplitMaxStages];
  uint64_t stage_empty[kSplitMaxStages];
  uint64_t query_full[kQuerySlots];
  uint64_t query_empty[kQuerySlots];
  SplitTask tasks[kQuerySlots];
  /// Softmax weights of one stage as operands of the product with V; two stages take turns.
  uint2 weights[2][kComputeWarps][kHeadTiles][32];
  /// The maxima that they are relative to.
  float maxima[2][kHeads][kComputeWarps];
  /// Padded, so that the heads' same pieces lie in different banks.
  alignas(16) T queries[kQuerySlots][kHeads][kHeadDim + 8];

  __device__ uint32_t Stage(int32_t stage) const {
    constexpr int32_t kFixedBytes = SplitFixedBytes(kHeadDim, kHeadTiles);
    static_assert(sizeof(SplitShared) <= kFixedBytes);
    return SharedAddress(this) + kFixedBytes + stage * SplitStageBytes(kHeadDim);
  }
};

/// A place in a ring of barriers and the parity of its phase.
struct RingPlace {
  int32_t index = 0;
  uint32_t parity = 0;

  __device__ void Advance(int32_t size) {
    if (++index == size) {
      index = 0;
      parity ^= 1;
    }
  }
};

/// Arrivals at the barriers of what a warp copies.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
inline constexpr int kCopyArrivals = 1;       // the lane that says how many bytes come
inline constexpr int kQueryCopyArrivals = 1;  // which has written the task before
#else
inline constexpr int kCopyArrivals = 32;       // every lane, when its copies are done
inline constexpr int kQueryCopyArrivals = 33;  // and the lane that has written the task
#endif

/// By one whole warp.
template <typename Shared>
__device__ void InitSplitBarriers(Shared& shared, int32_t stages) {
  if (threadIdx.x % 32 == 0) {
    for (int32_t i = 0; i < stages; ++i) {
      InitBarrier(SharedAddress(&shared.stage_full[i]), kCopyArrivals);
      InitBarrier(SharedAddress(&shared.stage_empty[i]), kComputeWarps * kArrivingLanes);
    }
    for (int i = 0; i < kQuerySlots; ++i) {
      InitBarrier(SharedAddress(&shared.query_full[i]), kQueryCopyArrivals);
      InitBarrier(SharedAddress(&shared.query_empty[i]), kComputeWarps * kArrivingLanes);
    }
    FenceBarrierInit();
  }
  __syncwarp();
}

}  // namespace decant
