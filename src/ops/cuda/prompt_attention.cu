#include <cmath>

#include "ops/cuda/element.cuh"
#include "ops/cuda/prompt_attention.h"
#include "ops/cuda/tensor_core.cuh"

namespace decant {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kKeys = 64;  ///< Keys of a tile.
constexpr int kStages = 2;

struct PromptArgs {
  const void* queries;
  void* attended;
  CachePages cache;
  float scale_log2;  ///< log2(e) / sqrt(head_dim): exp2 is what is computed
  int32_t heads;
  int32_t group;
};

/// Shared memory of one tile [64, kHeadDim] in rows of 16-byte pieces; piece p of row r lies at
/// p ^ (r & 7), so that eight rows' same pieces lie in eight different groups of banks.
template <int kHeadDim>
__device__ uint32_t TileOffset(int row, int piece) {
  return static_cast<uint32_t>(row * kHeadDim * 2 + ((piece ^ (row & 7)) * 16));
}

/// Begins the copy of keys (or values) [first, first + 64) of one KV head to shared memory; zeros
/// from position `context` on, which must not be read.
template <typename T, int kHeadDim>
__device__ void CopyTile(const T* base, const CachePages& cache, const int32_t* table,
                         int32_t first, int32_t context, uint32_t shared) {
  constexpr int kPieces = kHeadDim / 8;
  constexpr int kRowsAtOnce = kThreads / kPieces;
  const int piece = threadIdx.x % kPieces;
#pragma unroll
  for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
    const int row = i * kRowsAtOnce + threadIdx.x / kPieces;
    const int32_t position = first + row;
    const bool valid = position < context;
    const T* source = base;
    if (valid) {
      source += table[position / cache.page_size] * cache.page_stride +
                static_cast<int64_t>(position % cache.page_size) * kHeadDim + piece * 8;
    }
    CopyAsync16(shared + TileOffset<kHeadDim>(row, piece), source, valid);
  }
}

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    PromptAttentionKernel(PromptArgs args, StepArrays step) {
  constexpr int kDimSteps = kHeadDim / 16;  ///< products of 16 dims
  constexpr int kKeyTiles = kKeys / 8;
  constexpr uint32_t kTileBytes = kKeys * kHeadDim * 2;
  extern __shared__ __align__(128) std::byte shared_memory[];
  const uint32_t shared_q = SharedAddress(shared_memory);
  const uint32_t shared_k = shared_q + kTileBytes;
  const uint32_t shared_v = shared_k + kStages * kTileBytes;

  // Late tiles see the most keys, so they go first.
  const int32_t tile = step.prompt_tiles - 1 - blockIdx.x;
  const int32_t row = step.prompt_tiles_at[2 * tile];
  const int32_t first_row = step.prompt_tiles_at[2 * tile + 1];
  const int32_t kv_head = blockIdx.y;
  const int32_t query_len = step.query_lens[row];
  const int32_t context = step.context_lens[row];
  const int32_t query_start = step.query_starts[row];
  const int32_t* table = step.block_tables + static_cast<int64_t>(row) * step.table_stride;
  const int32_t all_rows = query_len * args.group;
  const int32_t first_position = context - query_len;
  const auto at = [&](int32_t packed_row) {  // of a packed row in queries and attended
    const int64_t token = query_start + packed_row / args.group;
    return (token * args.heads + kv_head * args.group + packed_row % args.group) * kHeadDim;
  };

  const T* k_base = static_cast<const T*>(args.cache.k) + kv_head * args.cache.head_stride;
  const T* v_base = static_cast<const T*>(args.cache.v) + kv_head * args.cache.head_stride;
  const int32_t last_row = min(first_row + kPromptTileRows, all_rows) - 1;
  const int32_t visible = first_position + last_row / args.group + 1;  // to the tile's last query
  const int32_t tiles = (visible + kKeys - 1) / kKeys;

  {
    constexpr int kPieces = kHeadDim / 8;
    for (int i = threadIdx.x; i < kPromptTileRows * kPieces; i += kThreads) {
      const int32_t packed_row = first_row + i / kPieces;
      const bool valid = packed_row < all_rows;
      const T* source = static_cast<const T*>(args.queries);
      if (valid) source += at(packed_row) + i % kPieces * 8;
      CopyAsync16(shared_q + TileOffset<kHeadDim>(i / kPieces, i % kPieces), source, valid);
    }
  }
  CopyTile<T, kHeadDim>(k_base, args.cache, table, 0, context, shared_k);
  CommitCopies();
  CopyTile<T, kHeadDim>(v_base, args.cache, table, 0, context, shared_v);
  CommitCopies();

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int low_row = warp * 16 + lane / 4;  // this lane's rows of the tile: low_row, low_row + 8
  // The positions that this lane's two rows are at: they see keys up to there.
  int32_t last_key[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    last_key[r] = first_position + min(first_row + low_row + 8 * r, all_rows - 1) / args.group;
  }

  uint32_t q[kDimSteps][4];
  float out[kHeadDim / 8][4];
#pragma unroll
  for (int i = 0; i < kHeadDim / 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) out[i][j] = 0;
  }
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  for (int32_t t = 0; t < tiles; ++t) {
    const uint32_t stage = t % kStages * kTileBytes;
    // K of this tile (the group before the last) has come; V may still be on its way.
    WaitCopies<1>();
    __syncthreads();
    if (t == 0) {
#pragma unroll
      for (int d = 0; d < kDimSteps; ++d) {
        LoadMatrices(q[d],
                     shared_q + TileOffset<kHeadDim>(warp * 16 + lane % 16, 2 * d + lane / 16));
      }
    }
    // The stage that the next K goes to was read by all before this iteration's barrier.
    const uint32_t next_stage = (t + 1) % kStages * kTileBytes;
    if (t + 1 < tiles) {
      CopyTile<T, kHeadDim>(k_base, args.cache, table, (t + 1) * kKeys, context,
                            shared_k + next_stage);
    }
    CommitCopies();

    float scores[kKeyTiles][4];
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[n][j] = 0;
    }
#pragma unroll
    for (int d = 0; d < kDimSteps; ++d) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) {
        uint32_t k[4];  // keys n * 8 to n * 8 + 15, dims d * 16 to d * 16 + 15
        const int key = n * 8 + lane % 8 + lane / 16 * 8;
        LoadMatrices(k, shared_k + stage + TileOffset<kHeadDim>(key, 2 * d + lane / 8 % 2));
        MultiplyAdd<T>(scores[n], q[d], k[0], k[1]);
        MultiplyAdd<T>(scores[n + 1], q[d], k[2], k[3]);
      }
    }

    const int32_t first_key = t * kKeys + lane % 4 * 2;
    if (t + 1 == tiles || (t + 1) * kKeys > first_position) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (first_key + n * 8 + j % 2 > last_key[j / 2]) scores[n][j] = -INFINITY;
        }
      }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = max[r];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
      // Tile 0 holds position 0, which every row sees, so `largest` is finite from there on.
      const float factor = exp2f((max[r] - largest) * args.scale_log2);
      max[r] = largest;
      sum[r] *= factor;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        out[i][2 * r] *= factor;
        out[i][2 * r + 1] *= factor;
      }
      const float scaled = largest * args.scale_log2;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int j = 2 * r; j < 2 * r + 2; ++j) {
          scores[n][j] = exp2f(fmaf(scores[n][j], args.scale_log2, -scaled));
          sum[r] += scores[n][j];
        }
      }
    }

    WaitCopies<1>();  // V of this tile has come; the next K may be on its way
    __syncthreads();
    if (t + 1 < tiles) {
      CopyTile<T, kHeadDim>(v_base, args.cache, table, (t + 1) * kKeys, context,
                            shared_v + next_stage);
    }
    CommitCopies();
#pragma unroll
    for (int step16 = 0; step16 < kKeys / 16; ++step16) {
      uint32_t p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = scores[2 * step16 + i / 2] + i % 2 * 2;
        const auto packed = Element<T>::FromFloat2(pair[0], pair[1]);
        p[i] = *reinterpret_cast<const uint32_t*>(&packed);
      }
#pragma unroll
      for (int d = 0; d < kHeadDim / 16; ++d) {
        uint32_t v[4];  // keys step16 * 16 to + 15, dims d * 16 to + 15
        const int key = step16 * 16 + lane % 16;
        LoadMatricesTransposed(v, shared_v + stage + TileOffset<kHeadDim>(key, 2 * d + lane / 16));
        MultiplyAdd<T>(out[2 * d], p, v[0], v[1]);
        MultiplyAdd<T>(out[2 * d + 1], p, v[2], v[3]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 1);
    sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], 2);
    const int32_t packed_row = first_row + low_row + 8 * r;
    if (packed_row >= all_rows) continue;
    const float inverse = 1.0F / sum[r];
    T* target = static_cast<T*>(args.attended) + at(packed_row) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
      *reinterpret_cast<typename Element<T>::Pair*>(target + i * 8) =
          Element<T>::FromFloat2(out[i][2 * r] * inverse, out[i][2 * r + 1] * inverse);
    }
  }
}

template <int kHeadDim>
constexpr int SharedBytes() {
  return (1 + 2 * kStages) * kKeys * kHeadDim * 2;
}

template <typename T, int kHeadDim>
cudaError_t Prepare() {
  return cudaFuncSetAttribute(PromptAttentionKernel<T, kHeadDim>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, SharedBytes<kHeadDim>());
}

template <typename T, int kHeadDim>
void LaunchFor(const AttentionShape& shape, const PromptArgs& args, const StepArrays& step,
               cudaStream_t stream) {
  const dim3 grid(step.prompt_tiles, shape.kv_heads);
  PromptAttentionKernel<T, kHeadDim>
      <<<grid, kThreads, SharedBytes<kHeadDim>(), stream>>>(args, step);
}

}  // namespace

cudaError_t PreparePromptAttention() {
  for (const cudaError_t error : {Prepare<__half, 64>(), Prepare<__half, 128>(),
                                  Prepare<__nv_bfloat16, 64>(), Prepare<__nv_bfloat16, 128>()}) {
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

void LaunchPromptAttention(CudaType type, const AttentionShape& shape, const StepArrays& step,
                           const CachePages& cache, const void* queries, void* attended,
                           cudaStream_t stream) {
  if (step.prompt_tiles == 0) return;
  const PromptArgs args{
      .queries = queries,
      .attended = attended,
      .cache = cache,
      .scale_log2 = 1.4426950408889634F / std::sqrt(static_cast<float>(shape.head_dim)),
      .heads = shape.heads,
      .group = shape.group()};
  if (type == CudaType::kF16) {
    shape.head_dim == 64 ? LaunchFor<__half, 64>(shape, args, step, stream)
                         : LaunchFor<__half, 128>(shape, args, step, stream);
  } else {
    shape.head_dim == 64 ? LaunchFor<__nv_bfloat16, 64>(shape, args, step, stream)
                         : LaunchFor<__nv_bfloat16, 128>(shape, args, step, stream);
  }
}

}  // namespace decant
