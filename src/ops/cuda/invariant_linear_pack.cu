#include <cuda_runtime.h>

#include "ops/cuda/invariant_linear_kernel.h"

namespace decant {
namespace {

constexpr int kPieceElements = 8;  // 16 bytes
constexpr int kRowPieces = kLinearBlock / kPieceElements;

/// One thread a piece of the packed weight.
__global__ void PackLinear(const uint4* elements, int32_t rows, int32_t pair_distance,
                           int64_t row_pieces, int64_t column_blocks, int64_t pieces,
                           uint4* packed) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= pieces) return;
  const int64_t block = index / (kLinearBlock * kRowPieces);
  const int in_block = static_cast<int>(index % (kLinearBlock * kRowPieces));
  const int block_row = in_block / kRowPieces;
  const int64_t row = PackedRowSource(
      pair_distance, static_cast<int32_t>(block / column_blocks) * kLinearBlock + block_row);
  const int64_t piece =
      block % column_blocks * kRowPieces + ((in_block % kRowPieces) ^ (block_row % kRowPieces));
  packed[index] = row < rows && piece < row_pieces ? elements[row * row_pieces + piece]
                                                   : make_uint4(0, 0, 0, 0);
}

/// What this code was compiled for is what the kernels beside it were.
__global__ void TellGroupProducts(int32_t* there) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  *there = 1;
#else
  *there = 0;
#endif
}

}  // namespace

bool LinearKernelsRun(int32_t* scratch) {
  int32_t there = 0;
  TellGroupProducts<<<1, 1>>>(scratch);
  return cudaGetLastError() == cudaSuccess &&
         cudaMemcpy(&there, scratch, sizeof(there), cudaMemcpyDeviceToHost) == cudaSuccess &&
         there == 1;
}

void LaunchPackLinear(const void* elements, int32_t rows, int32_t cols, int32_t pair_distance,
                      void* packed, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const int64_t column_blocks = (cols + kLinearBlock - 1) / kLinearBlock;
  const int64_t row_blocks = (rows + kLinearBlock - 1) / kLinearBlock;
  const int64_t pieces = row_blocks * column_blocks * kLinearBlock * kRowPieces;
  PackLinear<<<static_cast<unsigned>((pieces + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      static_cast<const uint4*>(elements), rows, pair_distance, cols / kPieceElements,
      column_blocks, pieces, static_cast<uint4*>(packed));
}

}  // namespace decant
