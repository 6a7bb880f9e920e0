#include <cmath>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows_attention.h"

namespace decant {
namespace {

constexpr int kWarps = 12;
constexpr int kThreads = kWarps * 32;
/// Loads of K (and of V) that a lane has in flight.
constexpr int kUnroll = 4;

struct RowsArgs {
  const void* queries;
  void* attended;
  CachePages cache;
  float scale_log2;  ///< log2(e) / sqrt(head_dim): exp2 is what is computed
  int32_t heads;
  int32_t group;        ///< query heads a KV head
  int32_t group_parts;  ///< blocks that share a KV head, kHeads query heads each
};

/// One block: `kHeads` query heads (fewer at the end of a group) of one row. kHeadDim / 8 lanes
/// hold a position's 16-byte pieces of K and V, so that a warp takes kKeys positions at once.
template <typename T, int kHeadDim, int kHeads>
__global__ void __launch_bounds__(kThreads) RowsAttentionKernel(RowsArgs args, StepArrays step) {
  WaitForEarlierKernels();
  constexpr int kLanes = kHeadDim / 8;
  constexpr int kKeys = 32 / kLanes;
  constexpr int kTile = kKeys * kUnroll;

  const int32_t row = blockIdx.x;
  const int32_t kv_head = blockIdx.y / args.group_parts;
  const int32_t first_head = blockIdx.y % args.group_parts * kHeads;
  const int32_t here = min(kHeads, args.group - first_head);
  const int32_t warp = threadIdx.x / 32;
  const int32_t lane = threadIdx.x % 32;
  const int32_t dim = lane % kLanes * 8;
  const int32_t key_of_lane = lane / kLanes;
  const int32_t context = step.context_lens[row];
  const int32_t* table = step.block_tables + static_cast<int64_t>(row) * step.table_stride;
  const int64_t head_at =
      static_cast<int64_t>(step.query_starts[row]) * args.heads + kv_head * args.group + first_head;

  float q[kHeads][8];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const T* query = static_cast<const T*>(args.queries) + (head_at + min(h, here - 1)) * kHeadDim;
    Unpack8<T>(*reinterpret_cast<const uint4*>(query + dim), q[h]);
#pragma unroll
    for (int i = 0; i < 8; ++i) q[h][i] *= args.scale_log2;
  }

  float max[kHeads];
  float sum[kHeads];
  float acc[kHeads][8];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    max[h] = -INFINITY;
    sum[h] = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[h][i] = 0;
  }

  const T* k_base = static_cast<const T*>(args.cache.k) + kv_head * args.cache.head_stride + dim;
  const T* v_base = static_cast<const T*>(args.cache.v) + kv_head * args.cache.head_stride + dim;
  for (int32_t first = warp * kTile; first < context; first += kWarps * kTile) {
    uint4 k[kUnroll];
    uint4 v[kUnroll];
    bool seen[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int32_t position = first + u * kKeys + key_of_lane;
      seen[u] = position < context;
      k[u] = make_uint4(0, 0, 0, 0);
      v[u] = make_uint4(0, 0, 0, 0);
      if (seen[u]) {
        const int64_t at = table[position / args.cache.page_size] * args.cache.page_stride +
                           static_cast<int64_t>(position % args.cache.page_size) * kHeadDim;
        k[u] = __ldg(reinterpret_cast<const uint4*>(k_base + at));
        v[u] = __ldg(reinterpret_cast<const uint4*>(v_base + at));
      }
    }

    float scores[kHeads][kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float key[8];
      Unpack8<T>(k[u], key);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += q[h][i] * key[i];
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
          dot += __shfl_xor_sync(0xffffffffU, dot, offset);
        }
        scores[h][u] = seen[u] ? dot : -INFINITY;
      }
    }

#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float largest = max[h];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) largest = fmaxf(largest, scores[h][u]);
      // A lane that has seen no position yet keeps -inf, or it would outweigh low scores later.
      const float reference = largest == -INFINITY ? 0 : largest;
      const float factor = exp2f(max[h] - reference);
      max[h] = largest;
      sum[h] *= factor;
#pragma unroll
      for (int i = 0; i < 8; ++i) acc[h][i] *= factor;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        scores[h][u] = exp2f(scores[h][u] - reference);
        sum[h] += scores[h][u];
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float value[8];
      Unpack8<T>(v[u], value);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[h][i] += scores[h][u] * value[i];
      }
    }
  }

  // The warps' results, one head after another to keep the shared memory small.
  __shared__ float part_max[kWarps * kKeys];
  __shared__ float part_sum[kWarps * kKeys];
  __shared__ float part_acc[kWarps * kKeys][kHeadDim];
  const int32_t part = warp * kKeys + key_of_lane;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (dim == 0) {
      part_max[part] = max[h];
      part_sum[part] = sum[h];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) part_acc[part][dim + i] = acc[h][i];
    __syncthreads();
    if (threadIdx.x < kHeadDim && h < here) {
      float largest = -INFINITY;
      for (int p = 0; p < kWarps * kKeys; ++p) largest = fmaxf(largest, part_max[p]);
      float total = 0;
      float value = 0;
      for (int p = 0; p < kWarps * kKeys; ++p) {
        const float factor = exp2f(part_max[p] - largest);
        total += part_sum[p] * factor;
        value += part_acc[p][threadIdx.x] * factor;
      }
      static_cast<T*>(args.attended)[(head_at + h) * kHeadDim + threadIdx.x] =
          Element<T>::From(value / total);
    }
    __syncthreads();
  }
}

template <typename T, int kHeadDim>
void LaunchFor(const AttentionShape& shape, RowsArgs args, const StepArrays& step,
               cudaStream_t stream) {
  const auto launch = [&]<int kHeads>() {
    args.group_parts = (args.group + kHeads - 1) / kHeads;
    const dim3 grid(step.decode_rows, shape.kv_heads * args.group_parts);
    LaunchOverlapped(RowsAttentionKernel<T, kHeadDim, kHeads>, grid, kThreads, 0, stream, args,
                     step);
  };
  if (args.group == 1) {
    launch.template operator()<1>();
  } else if (args.group <= 4) {
    launch.template operator()<4>();
  } else {
    // 16 heads are cut into parts of 6, as registers end there.
    launch.template operator()<6>();
  }
}

}  // namespace

void LaunchRowsAttention(CudaType type, const AttentionShape& shape, const StepArrays& step,
                         const CachePages& cache, const void* queries, void* attended,
                         cudaStream_t stream) {
  if (step.decode_rows == 0) return;
  const RowsArgs args{
      .queries = queries,
      .attended = attended,
      .cache = cache,
      .scale_log2 = 1.4426950408889634F / std::sqrt(static_cast<float>(shape.head_dim)),
      .heads = shape.heads,
      .group = shape.group(),
      .group_parts = 1};
  if (type == CudaType::kF16) {
    shape.head_dim == 64 ? LaunchFor<__half, 64>(shape, args, step, stream)
                         : LaunchFor<__half, 128>(shape, args, step, stream);
  } else {
    shape.head_dim == 64 ? LaunchFor<__nv_bfloat16, 64>(shape, args, step, stream)
                         : LaunchFor<__nv_bfloat16, 128>(shape, args, step, stream);
  }
}

}  // namespace decant
