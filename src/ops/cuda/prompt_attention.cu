#include <cmath>

#include "ops/cuda/cache_layout.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/prompt_attention.h"
#include "ops/cuda/tensor_core.cuh"

namespace decant {
namespace {

constexpr int kGroupThreads = 128;  ///< Four warps, 16 rows of the tile each.
constexpr int kKeys = 64;           ///< Keys of a tile.
constexpr int kStages = 2;
/// Groups of warps that share a tile of rows, where shared memory has room for them.
constexpr int kPromptGroups = 3;

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

/// Begins the copy of keys (or values) [first, first + 64) of one KV head to shared memory by the
/// threads of a group; zeros from position `context` on, which must not be read.
template <typename T, int kHeadDim>
__device__ void CopyTile(const T* base, const CachePages& cache, const int32_t* table,
                         int32_t first, int32_t context, uint32_t shared) {
  constexpr int kPieces = kHeadDim / 8;
  constexpr int kRowsAtOnce = kGroupThreads / kPieces;
  const int thread = threadIdx.x % kGroupThreads;
  const int piece = thread % kPieces;
#pragma unroll
  for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
    const int row = i * kRowsAtOnce + thread / kPieces;
    const int32_t position = first + row;
    const bool valid = position < context;
    const T* source = base;
    if (valid) {
      source += table[position / cache.page_size] * cache.page_stride +
                BlockElement(cache.layout, cache.page_size, kHeadDim, position % cache.page_size,
                             piece * 8);
    }
    CopyAsync16(shared + TileOffset<kHeadDim>(row, piece), source, valid);
  }
}

/// 0 for the maximum of nothing, so that differences from it are no NaN.
__device__ float Finite(float max) { return max == -INFINITY ? 0 : max; }

/// Waits for the threads of one group.
__device__ void GroupBarrier(int group) {
  // Barriers of a constant number each: compute-sanitizer's racecheck does not follow one whose
  // number is in a register.
  static_assert(kPromptGroups == 3);
  if (group == 0) {
    asm volatile("bar.sync 1, %0;" ::"n"(kGroupThreads) : "memory");
  } else if (group == 1) {
    asm volatile("bar.sync 2, %0;" ::"n"(kGroupThreads) : "memory");
  } else {
    asm volatile("bar.sync 3, %0;" ::"n"(kGroupThreads) : "memory");
  }
}

/// What a thread knows of its two rows (r = 0, 1; row r + 8 of the tile's 16): the running maximum,
/// its share of the sum, and out[i][2 r + j], dim i * 8 + lane % 4 * 2 + j.
template <int kHeadDim>
struct RowSums {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
  float out[kHeadDim / 8][4] = {};
};

/// Adds the sums of all groups to those of group 0, in order. All of the block's threads call it,
/// once they have issued their last reads of shared memory; threads at the same place in their
/// groups hold the same part. A group leaves its sums where its own tiles were: group g at
/// tiles + g * tile_floats.
template <int kHeadDim, int kGroups>
__device__ void MergeGroups(float* tiles, int tile_floats, float scale_log2,
                            RowSums<kHeadDim>& sums) {
  static_assert(kGroups == kPromptGroups);
  const int group = threadIdx.x / kGroupThreads;
  float* mine = tiles + threadIdx.x % kGroupThreads;
  WaitCopies<0>();
  GroupBarrier(group);  // the group's warps are done with its last tile
  if (group > 0) {
    float* place = mine + group * tile_floats;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) place[i * kGroupThreads] = sums.out[i / 4][i % 4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      place[(kHeadDim / 2 + r) * kGroupThreads] = sums.max[r];
      place[(kHeadDim / 2 + 2 + r) * kGroupThreads] = sums.sum[r];
    }
  }
  __syncthreads();
  if (group > 0) return;
  for (int other = 1; other < kGroups; ++other) {
    const float* place = mine + other * tile_floats;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float other_max = place[(kHeadDim / 2 + r) * kGroupThreads];
      const float largest = fmaxf(sums.max[r], other_max);
      const float factor = exp2f((sums.max[r] - Finite(largest)) * scale_log2);
      const float other_factor = exp2f((other_max - Finite(largest)) * scale_log2);
      sums.max[r] = largest;
      sums.sum[r] =
          sums.sum[r] * factor + place[(kHeadDim / 2 + 2 + r) * kGroupThreads] * other_factor;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
#pragma unroll
        for (int j = 2 * r; j < 2 * r + 2; ++j) {
          sums.out[i][j] =
              sums.out[i][j] * factor + place[(i * 4 + j) * kGroupThreads] * other_factor;
        }
      }
    }
  }
}

/// One block: a tile of 64 query rows of one KV head. Its groups of four warps share the rows and
/// deal the key tiles out among them, tile t to group t % kGroups; what they sum is merged in order
/// of groups, so that a row's bits depend on its own position alone.
template <typename T, int kHeadDim, int kGroups>
__global__ void __launch_bounds__(kGroups* kGroupThreads)
    PromptAttentionKernel(PromptArgs args, StepArrays step) {
  WaitForEarlierKernels();
  constexpr int kDimSteps = kHeadDim / 16;  ///< products of 16 dims
  constexpr int kKeyTiles = kKeys / 8;
  constexpr uint32_t kTileBytes = kKeys * kHeadDim * 2;
  extern __shared__ __align__(128) std::byte shared_memory[];
  const int group = threadIdx.x / kGroupThreads;
  const uint32_t shared_q = SharedAddress(shared_memory);
  const uint32_t shared_k = shared_q + (1 + group * 2 * kStages) * kTileBytes;
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
    for (int i = threadIdx.x; i < kPromptTileRows * kPieces; i += kGroups * kGroupThreads) {
      const int32_t packed_row = first_row + i / kPieces;
      const bool valid = packed_row < all_rows;
      const T* source = static_cast<const T*>(args.queries);
      if (valid) source += at(packed_row) + i % kPieces * 8;
      CopyAsync16(shared_q + TileOffset<kHeadDim>(i / kPieces, i % kPieces), source, valid);
    }
  }
  CommitCopies();
  CopyTile<T, kHeadDim>(k_base, args.cache, table, group * kKeys, context, shared_k);
  CommitCopies();
  CopyTile<T, kHeadDim>(v_base, args.cache, table, group * kKeys, context, shared_v);
  CommitCopies();

  const int warp = threadIdx.x % kGroupThreads / 32;
  const int lane = threadIdx.x % 32;
  const int low_row = warp * 16 + lane / 4;  // this lane's rows of the tile: low_row, low_row + 8
  // The positions that this lane's two rows are at: they see keys up to there.
  int32_t last_key[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    last_key[r] = first_position + min(first_row + low_row + 8 * r, all_rows - 1) / args.group;
  }

  WaitCopies<2>();  // q has come; the first K and V may still be on their way
  __syncthreads();
  uint32_t q[kDimSteps][4];
#pragma unroll
  for (int d = 0; d < kDimSteps; ++d) {
    LoadMatrices(q[d], shared_q + TileOffset<kHeadDim>(warp * 16 + lane % 16, 2 * d + lane / 16));
  }

  RowSums<kHeadDim> sums;
  for (int32_t t = group; t < tiles; t += kGroups) {
    const uint32_t stage = t / kGroups % kStages * kTileBytes;
    // K of this tile (the copies before the last) has come; V may still be on its way.
    WaitCopies<1>();
    GroupBarrier(group);
    // The stage that the next K goes to was read by all before this iteration's barrier.
    const uint32_t next_stage = (t / kGroups + 1) % kStages * kTileBytes;
    if (t + kGroups < tiles) {
      CopyTile<T, kHeadDim>(k_base, args.cache, table, (t + kGroups) * kKeys, context,
                            shared_k + next_stage);
    }
    CommitCopies();

    float scores[kKeyTiles][4] = {};
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

    if ((t + 1) * kKeys > first_position) {
      const int32_t first_key = t * kKeys + lane % 4 * 2;
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
      float largest = sums.max[r];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
      const float scaled = Finite(largest) * args.scale_log2;
      const float factor = exp2f(fmaf(sums.max[r], args.scale_log2, -scaled));
      sums.max[r] = largest;
      sums.sum[r] *= factor;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        sums.out[i][2 * r] *= factor;
        sums.out[i][2 * r + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int j = 2 * r; j < 2 * r + 2; ++j) {
          scores[n][j] = exp2f(fmaf(scores[n][j], args.scale_log2, -scaled));
          sums.sum[r] += scores[n][j];
        }
      }
    }

    WaitCopies<1>();  // V of this tile has come; the next K may be on its way
    GroupBarrier(group);
    if (t + kGroups < tiles) {
      CopyTile<T, kHeadDim>(v_base, args.cache, table, (t + kGroups) * kKeys, context,
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
        MultiplyAdd<T>(sums.out[2 * d], p, v[0], v[1]);
        MultiplyAdd<T>(sums.out[2 * d + 1], p, v[2], v[3]);
      }
    }
  }

  if constexpr (kGroups > 1) {
    // Groups of one tile fewer meet as often as the others do: nothing needs it but
    // compute-sanitizer's racecheck, which else loses sight of the barriers that follow.
    if (group >= (tiles - 1) % kGroups + 1) {
      GroupBarrier(group);
      GroupBarrier(group);
    }
    constexpr int kTileFloats = 2 * kStages * kTileBytes / sizeof(float);
    static_assert((kHeadDim / 2 + 4) * kGroupThreads <= kTileFloats);
    MergeGroups<kHeadDim, kGroups>(reinterpret_cast<float*>(shared_memory + kTileBytes),
                                   kTileFloats, args.scale_log2, sums);
    if (group > 0) return;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float total = sums.sum[r];
    total += __shfl_xor_sync(0xffffffffU, total, 1);
    total += __shfl_xor_sync(0xffffffffU, total, 2);
    const int32_t packed_row = first_row + low_row + 8 * r;
    if (packed_row >= all_rows) continue;
    const float inverse = 1.0F / total;
    T* target = static_cast<T*>(args.attended) + at(packed_row) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
      *reinterpret_cast<typename Element<T>::Pair*>(target + i * 8) =
          Element<T>::FromFloat2(sums.out[i][2 * r] * inverse, sums.out[i][2 * r + 1] * inverse);
    }
  }
}

template <int kHeadDim, int kGroups>
constexpr int SharedBytes() {
  return (1 + kGroups * 2 * kStages) * kKeys * kHeadDim * 2;
}

/// Calls body with the kernel for a type, head_dim and number of groups, its shared memory and its
/// threads.
template <typename Body>
auto WithKernel(CudaType type, int32_t head_dim, int32_t groups, Body&& body) {
  const auto choose = [&]<typename T, int kHeadDim>() {
    if (groups == 1) {
      return body(PromptAttentionKernel<T, kHeadDim, 1>, SharedBytes<kHeadDim, 1>(), kGroupThreads);
    }
    return body(PromptAttentionKernel<T, kHeadDim, kPromptGroups>,
                SharedBytes<kHeadDim, kPromptGroups>(), kPromptGroups * kGroupThreads);
  };
  if (type == CudaType::kF16) {
    return head_dim == 64 ? choose.template operator()<__half, 64>()
                          : choose.template operator()<__half, 128>();
  }
  return head_dim == 64 ? choose.template operator()<__nv_bfloat16, 64>()
                        : choose.template operator()<__nv_bfloat16, 128>();
}

}  // namespace

cudaError_t PreparePromptAttention(CudaType type, const AttentionShape& shape, int device,
                                   int32_t* groups) {
  int most_bytes = 0;
  const cudaError_t error =
      cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  const bool fits =
      WithKernel(type, shape.head_dim, kPromptGroups,
                 [&](auto /*kernel*/, int bytes, int /*threads*/) { return bytes <= most_bytes; });
  *groups = fits ? kPromptGroups : 1;
  return WithKernel(type, shape.head_dim, *groups, [](auto kernel, int bytes, int /*threads*/) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  });
}

void LaunchPromptAttention(CudaType type, const AttentionShape& shape, int32_t groups,
                           const StepArrays& step, const CachePages& cache, const void* queries,
                           void* attended, cudaStream_t stream) {
  if (step.prompt_tiles == 0) return;
  const PromptArgs args{
      .queries = queries,
      .attended = attended,
      .cache = cache,
      .scale_log2 = 1.4426950408889634F / std::sqrt(static_cast<float>(shape.head_dim)),
      .heads = shape.heads,
      .group = shape.group()};
  const dim3 grid(step.prompt_tiles, shape.kv_heads);
  WithKernel(type, shape.head_dim, groups, [&](auto kernel, int bytes, int threads) {
    LaunchOverlapped(kernel, grid, threads, bytes, stream, args, step);
  });
}

}  // namespace decant
