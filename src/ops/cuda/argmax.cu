#include <algorithm>

#include "ops/cuda/argmax.h"
#include "ops/cuda/draw.h"
#include "ops/cuda/largest_logit.cuh"
#include "ops/cuda/launch.cuh"

namespace decant {
namespace {

constexpr int kThreads = 1024;

/// The slots of a block of rows, which a kernel takes by value.
struct SlotList {
  static constexpr int32_t kMost = 256;
  int32_t slots[kMost];
};

__device__ void TakeFromWarp(LargestLogit& mine) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) mine.TakeFromLane(mask);
}

/// The token of the block's row, from what each thread has found: the largest, and whether there
/// are undrawable ones. All threads call it.
__device__ void WriteToken(LargestLogit mine, bool undrawable, const SlotList& list,
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
    tokens_out[blockIdx.x] = can_draw ? mine.token : kNoDraw;
    last_tokens[list.slots[blockIdx.x]] = mine.token;
  }
}

__global__ void __launch_bounds__(kThreads)
    ArgmaxKernel(const float* logits, int32_t vocab, SlotList list, int32_t* last_tokens,
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
  WriteToken(mine, undrawable, list, last_tokens, tokens_out);
}

/// parts: [gridDim.x, count], count a multiple of 4.
__global__ void __launch_bounds__(kThreads)
    ArgmaxOfPartsKernel(const ArgmaxPart* parts, int32_t count, SlotList list, int32_t* last_tokens,
                        int32_t* tokens_out) {
  WaitForEarlierKernels();
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
  WriteToken(mine, undrawable, list, last_tokens, tokens_out);
}

/// Launches `kernel` over rows of `width` values, as many at a time as a SlotList has.
template <typename Value>
void Launch(void (*kernel)(const Value*, int32_t, SlotList, int32_t*, int32_t*),
            const Value* values, int32_t width, std::span<const int32_t> slots,
            int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  for (size_t first = 0; first < slots.size(); first += SlotList::kMost) {
    const std::span<const int32_t> part =
        slots.subspan(first, std::min<size_t>(SlotList::kMost, slots.size() - first));
    SlotList list;
    std::ranges::copy(part, list.slots);
    LaunchOverlapped(kernel, static_cast<unsigned>(part.size()), kThreads, 0, stream,
                     values + first * width, width, list, last_tokens, tokens_out + first);
  }
}

}  // namespace

void LaunchArgmax(const float* logits, int32_t vocab, std::span<const int32_t> slots,
                  int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  Launch(ArgmaxKernel, logits, vocab, slots, last_tokens, tokens_out, stream);
}

void LaunchArgmaxOfParts(const ArgmaxPart* parts, int32_t vocab, std::span<const int32_t> slots,
                         int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  Launch(ArgmaxOfPartsKernel, parts, ArgmaxParts(vocab), slots, last_tokens, tokens_out, stream);
}

}  // namespace decant
