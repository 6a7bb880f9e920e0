#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/invariant_linear_tiles.h"
#include "ops/cuda/linear_finish.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

static_assert(kSquareColumns == kLinearBlock);

/// One product, as its kernel sees it. The kernels' parameters are a CUtensorMap of the input and
/// this; boxes of the map are 64 columns and tile.copy_tokens() tokens.
struct LinearArguments {
  const void* weight = nullptr;  ///< packed
  int32_t tokens = 0;
  int32_t rows = 0;  ///< of the weight
  int32_t cols = 0;
  float one_over_cols = 0;
  int32_t pair_distance = 0;       ///< PackedRowSource
  const float* squares = nullptr;  ///< LinearInput
  float epsilon = 0;
  ProductResult result;
  LinearCut cut;
  int32_t stages = 0;  ///< of the ring in shared memory
  /// Whether the weight is read by one tile only and need not stay in the L2 cache.
  bool streams_weight = false;
  /// Where the ranges' sums meet in shared memory: in the ring once all blocks are done with it, or
  /// behind it.
  bool merges_in_ring = false;
  void* handed_over = nullptr;  ///< kChain: sums, LinearHandOverBytes for each block of threads
  uint32_t* handed_flags = nullptr;  ///< kChain: one for each group, zero between products
};

/// Bytes that one block of threads hands over.
constexpr int32_t LinearHandOverBytes(const LinearTile& tile) {
  return tile.row_blocks() * kLinearBlock * tile.tokens * static_cast<int32_t>(sizeof(float));
}

/// Whether the kernels of kLinearTiles are there for the current device: they were compiled for it.
/// Waits for the device. `scratch`: four bytes of device memory.
bool LinearKernelsRun(int32_t* scratch);

/// The kernel of kLinearTiles[tile].
const void* LinearKernelF16(int32_t tile);
const void* LinearKernelBf16(int32_t tile);

/// packed = the blocks of elements [rows, cols], 2 bytes each, with rows in the order of
/// PackedRowSource; zeros beyond them.
void LaunchPackLinear(const void* elements, int32_t rows, int32_t cols, int32_t pair_distance,
                      void* packed, cudaStream_t stream);

}  // namespace decant
