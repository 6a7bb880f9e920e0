// Invariant linear layers with the matrix instructions of compute capability 8.0: one block of four
// warps computes 64 rows of some tokens, a warp 16 rows; its ring in shared memory is filled by
// cp.async.
#include <cuda_runtime.h>

#include "ops/cuda/invariant_linear_portable.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/linear_finish.cuh"
#include "ops/cuda/tensor_core.cuh"

namespace decant {
namespace {

constexpr int kThreads = kLinearGroupThreads;
constexpr int kPieceBytes = 16;
constexpr int kRowBytes = kLinearBlock * 2;
constexpr int kRowPieces = kRowBytes / kPieceBytes;
constexpr int kSteps = kLinearBlock / 16;  // products along a block's columns

template <int kTokens>
struct PortableTile {
  static constexpr int kChunks = kTokens / 8;
  static constexpr int kStageBytes = kLinearBlockBytes + kTokens * kRowBytes;
  // As much as a block may have without asking; outputs are finished in the same memory.
  static constexpr int kStages = 48 * 1024 / kStageBytes < 4 ? 48 * 1024 / kStageBytes : 4;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kSharedBytes >= LinearGroupBytes(kTokens));
};

/// Piece `piece` of row `row` where rows of 128 bytes are swizzled.
__device__ inline uint32_t SwizzledPiece(int row, int piece) {
  return row * kRowBytes + (piece ^ row % kRowPieces) * kPieceBytes;
}

/// Starts copies of column block `block` of the weight's row block and of the tokens.
template <int kTokens>
__device__ void FetchStage(const LinearArguments& args, const void* input, int block,
                           int first_token, uint32_t stage) {
  const char* weight =
      static_cast<const char*>(args.weight) +
      (static_cast<int64_t>(blockIdx.x) * args.cut.column_blocks + block) * kLinearBlockBytes;
  for (int at = threadIdx.x * kPieceBytes; at < kLinearBlockBytes; at += kThreads * kPieceBytes) {
    CopyAsync16(stage + at, weight + at, true);
  }
  for (int i = threadIdx.x; i < kTokens * kRowPieces; i += kThreads) {
    const int row = i / kRowPieces;
    const int piece = i % kRowPieces;
    const int token = first_token + row;
    const int column = block * kLinearBlock + piece * (kPieceBytes / 2);
    const bool valid = token < args.tokens && column < args.cols;
    const int64_t from = valid ? static_cast<int64_t>(token) * args.cols + column : 0;
    CopyAsync16(stage + kLinearBlockBytes + SwizzledPiece(row, piece),
                static_cast<const uint16_t*>(input) + from, valid);
  }
}

/// sums += the products of one stage, in order.
template <typename T, int kTokens>
__device__ void AddStage(float (&sums)[kTokens / 8][4], uint32_t stage) {
  const int lane = threadIdx.x % 32;
  const int weight_row = threadIdx.x / 32 * 16 + lane % 16;
  const int token_row = lane / 16 * 8 + lane % 8;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    uint32_t weight[4];
    LoadMatrices(weight, stage + SwizzledPiece(weight_row, step * 2 + lane / 16));
#pragma unroll
    for (int pair = 0; pair < kTokens / 16; ++pair) {
      uint32_t tokens[4];
      LoadMatrices(tokens, stage + kLinearBlockBytes +
                               SwizzledPiece(pair * 16 + token_row, step * 2 + lane / 8 % 2));
      MultiplyAdd<T>(sums[2 * pair], weight, tokens[0], tokens[1]);
      MultiplyAdd<T>(sums[2 * pair + 1], weight, tokens[2], tokens[3]);
    }
  }
}

template <typename T, int kTokens>
__global__ void __launch_bounds__(kThreads)
    PortableLinear(const __grid_constant__ LinearArguments args, const void* input) {
  using Tile = PortableTile<kTokens>;
  extern __shared__ char memory[];
  const uint32_t ring = SharedAddress(memory);
  const int first_token = blockIdx.y * kTokens;
  const int blocks = args.cut.column_blocks;
  float sums[Tile::kChunks][4] = {};
  float total[Tile::kChunks][4] = {};

  WaitForEarlierKernels();
  for (int block = 0; block < Tile::kStages - 1; ++block) {
    if (block < blocks) {
      FetchStage<kTokens>(args, input, block, first_token, ring + block * Tile::kStageBytes);
    }
    CommitCopies();
  }
  int range = 0;
  int range_end = args.cut.RangeBegin(1);
  for (int block = 0; block < blocks; ++block) {
    WaitCopies<Tile::kStages - 2>();
    __syncthreads();  // the stage has come for all, and all are done with the one before it
    const int next = block + Tile::kStages - 1;
    if (next < blocks) {
      FetchStage<kTokens>(args, input, next, first_token,
                          ring + next % Tile::kStages * Tile::kStageBytes);
    }
    CommitCopies();
    AddStage<T, kTokens>(sums, ring + block % Tile::kStages * Tile::kStageBytes);
    if (block + 1 < range_end) continue;
#pragma unroll
    for (int i = 0; i < Tile::kChunks; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        total[i][j] = range == 0 ? sums[i][j] : total[i][j] + sums[i][j];
        sums[i][j] = 0;
      }
    }
    ++range;
    range_end = args.cut.RangeBegin(range + 1);
  }
  __syncthreads();  // the ring is at hand for what follows
  auto* turned = reinterpret_cast<float*>(memory);
  constexpr int kBarrier = 1;
  TileTokens<T, kTokens> tokens(args, kBarrier,
                                reinterpret_cast<TileToken*>(memory + kLinearStagingBytes));
  const int tile = static_cast<int>(blockIdx.y);
  tokens.Prepare(tile);
  const int chunks = min(Tile::kChunks, (args.tokens - first_token + 7) / 8);
  WithFinish(args.result.finish, [&](auto finish) {
    const LinearFinisher<T, kTokens, finish()> finisher(
        args, tokens, static_cast<int>(blockIdx.x) * kLinearBlock, first_token, turned);
    finisher.Finish(0, 1, chunks, [&](int begin, float4(&beside)[kFinishChunks]) {
#pragma unroll
      for (int i = 0; i < kFinishChunks; ++i) beside[i] = finisher.BesideOf(begin + i);
#pragma unroll
      for (int i = 0; i < Tile::kChunks; ++i) {
        if (i / kFinishChunks * kFinishChunks != begin) continue;
        finisher.Stage(i % kFinishChunks,
                       make_float4(total[i][0], total[i][1], total[i][2], total[i][3]));
      }
    });
  });
}

template <typename T, int kTokens>
void Launch(const LinearArguments& args, const void* input, cudaStream_t stream) {
  const dim3 grid((args.rows + kLinearBlock - 1) / kLinearBlock,
                  (args.tokens + kTokens - 1) / kTokens);
  LaunchOverlapped(PortableLinear<T, kTokens>, grid, dim3(kThreads),
                   PortableTile<kTokens>::kSharedBytes, stream, args, input);
}

template <typename T>
void LaunchType(const LinearArguments& args, const void* input, cudaStream_t stream) {
  constexpr int kFew = 16;
  constexpr int kMany = 64;
  if (args.tokens <= kFew) {
    Launch<T, kFew>(args, input, stream);
  } else {
    Launch<T, kMany>(args, input, stream);
  }
}

}  // namespace

void LaunchPortableLinear(CudaType type, const LinearArguments& arguments, const void* input,
                          cudaStream_t stream) {
  if (type == CudaType::kF16) {
    LaunchType<__half>(arguments, input, stream);
  } else {
    LaunchType<__nv_bfloat16>(arguments, input, stream);
  }
}

}  // namespace decant
