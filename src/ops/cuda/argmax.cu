#include <algorithm>

#include "ops/cuda/argmax.h"
#include "ops/cuda/draw.h"
#include "ops/cuda/largest_logit.cuh"
#include "ops/cuda/launch.cuh"

namespace decant {
namespace {

constexpr int kThreads = 1024;

/// The engine's rows that a block of rows stands for. A kernel takes it by value.
struct ListedRows {
  static constexpr int32_t kMost = 256;
  int32_t slots[kMost];

  __device__ bool Has(int32_t /*row*/) const { return true; }
  __device__ int32_t Slot(int32_t row) const { return slots[row]; }
  __device__ int32_t Out(int32_t row) const { return row; }
};

/// The same of a step's first tokens, told by its arrays in device memory.
struct FirstTokens {
  const StepCounts* counts;
  const int32_t* token_rows;
  const int32_t* row_slots;
  int32_t turn_stride;

  __device__ bool Has(int32_t row) const { return row < __ldcg(&counts->draws.samples); }
  __device__ int32_t Slot(int32_t row) const {
    return __ldcg(row_slots + __ldcg(token_rows + row));
  }
  __device__ int32_t Out(int32_t row) const {
    return __ldcg(&counts->draws.turn) * turn_stride + row;
  }
};

__device__ void TakeFromWarp(LargestLogit& mine) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) mine.TakeFromLane(mask);
}

/// The token of the block's row, from what each thread has found: the largest, and whether there
/// are undrawable ones. All threads call it.
template <typename Rows>
__device__ void WriteToken(LargestLogit mine, bool undrawable, const Rows& rows,
                           int32_t* last_tokens, int32_t* tokens_out) {
  TakeFromWarp(mine);
  __shared__ float logits[kThreads / 32];
  __shared__ int32_t tokens[kThreads / 32];
  if (threadIdx.x % 32 == 0) {
    logits[threadIdx.x / 32] = mine.logit;
    tokens[threadIdx.x / 32] = mine.token;
  }
  const bool can_draw = __syncthreads_or(undrawable ? 1 : 0) == 0;
  if (threadIdx.x >= 32) return;
  mine = {logits[threadIdx.x], tokens[threadIdx.x]};
  TakeFromWarp(mine);
  if (threadIdx.x == 0) {
    const auto row = static_cast<int32_t>(blockIdx.x);
    tokens_out[rows.Out(row)] = can_draw ? mine.token : kNoDraw;
    last_tokens[rows.Slot(row)] = mine.token;
  }
}

__global__ void __launch_bounds__(kThreads)
    ArgmaxKernel(const float* logits, int32_t vocab, ListedRows rows, int32_t* last_tokens,
                 int32_t* tokens_out) {
  WaitForEarlierKernels();
  const float* row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  LargestLogit mine;
  bool undrawable = false;
  const auto take = [&](float logit, int32_t token) {
    undrawable = undrawable || IsUndrawable(logit);
    mine.Take(logit, token);
  };
  if (vocab % 4 == 0) {
    for (int32_t i = threadIdx.x * 4; i < vocab; i += kThreads * 4) {
      const float4 values = *reinterpret_cast<const float4*>(row + i);
      take(values.x, i);
      take(values.y, i + 1);
      take(values.z, i + 2);
      take(values.w, i + 3);
    }
  } else {
    for (int32_t i = threadIdx.x; i < vocab; i += kThreads) take(row[i], i);
  }
  WriteToken(mine, undrawable, rows, last_tokens, tokens_out);
}

/// parts: [gridDim.x, count], count a multiple of 4.
template <typename Rows>
__global__ void __launch_bounds__(kThreads)
    ArgmaxOfPartsKernel(const ArgmaxPart* parts, int32_t count, Rows rows, int32_t* last_tokens,
                        int32_t* tokens_out) {
  WaitForEarlierKernels();
  if (!rows.Has(static_cast<int32_t>(blockIdx.x))) return;
  const auto* row =
      reinterpret_cast<const uint4*>(parts + static_cast<int64_t>(blockIdx.x) * count);
  LargestLogit mine;
  bool undrawable = false;
  const auto take = [&](uint32_t logit, uint32_t token) {
    undrawable = undrawable || (token & kUndrawable) != 0;
    mine.Take(__uint_as_float(logit), static_cast<int32_t>(token & ~kUndrawable));
  };
  for (int32_t i = threadIdx.x; i < count / 2; i += kThreads) {
    const uint4 two = __ldcg(row + i);
    take(two.x, two.y);
    take(two.z, two.w);
  }
  WriteToken(mine, undrawable, rows, last_tokens, tokens_out);
}

/// Launches `kernel` over rows of `width` values, as many at a time as ListedRows has.
template <typename Value>
void Launch(void (*kernel)(const Value*, int32_t, ListedRows, int32_t*, int32_t*),
            const Value* values, int32_t width, std::span<const int32_t> slots,
            int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  for (size_t first = 0; first < slots.size(); first += ListedRows::kMost) {
    const std::span<const int32_t> part =
        slots.subspan(first, std::min<size_t>(ListedRows::kMost, slots.size() - first));
    ListedRows rows;
    std::ranges::copy(part, rows.slots);
    LaunchOverlapped(kernel, static_cast<unsigned>(part.size()), kThreads, 0, stream,
                     values + first * width, width, rows, last_tokens, tokens_out + first);
  }
}

}  // namespace

void LaunchArgmax(const float* logits, int32_t vocab, std::span<const int32_t> slots,
                  int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  Launch(ArgmaxKernel, logits, vocab, slots, last_tokens, tokens_out, stream);
}

void LaunchArgmaxOfParts(const ArgmaxPart* parts, int32_t vocab, std::span<const int32_t> slots,
                         int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  Launch(ArgmaxOfPartsKernel<ListedRows>, parts, ArgmaxParts(vocab), slots, last_tokens, tokens_out,
         stream);
}

void LaunchArgmaxOfFirst(const ArgmaxPart* parts, int32_t vocab, int32_t tokens,
                         const StepArrays& step, int32_t* last_tokens, int32_t* tokens_out,
                         int32_t turn_stride, cudaStream_t stream) {
  const FirstTokens rows{.counts = step.counts,
                         .token_rows = step.token_rows,
                         .row_slots = step.row_slots,
                         .turn_stride = turn_stride};
  LaunchOverlapped(ArgmaxOfPartsKernel<FirstTokens>, static_cast<unsigned>(tokens), kThreads, 0,
                   stream, parts, ArgmaxParts(vocab), rows, last_tokens, tokens_out);
}

}  // namespace decant
