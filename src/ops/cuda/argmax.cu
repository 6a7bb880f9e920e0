#include <algorithm>
#include <cmath>

#include "ops/cuda/argmax.h"
#include "ops/cuda/draw.h"
#include "ops/cuda/launch.cuh"

namespace decant {
namespace {

constexpr int kThreads = 1024;

/// The slots of a block of rows, which a kernel takes by value.
struct SlotList {
  static constexpr int32_t kMost = 256;
  int32_t slots[kMost];
};

struct Candidate {
  float logit = -INFINITY;
  int32_t token = 0;

  /// Keeps the larger, of equals the first, and notes in `bad` what is NaN or +infinity. NaN
  /// compares false, so it never enters.
  __device__ void Take(float other, int32_t other_token, bool& bad) {
    bad = bad || !(other < INFINITY);
    Take(other, other_token);
  }
  __device__ void Take(float other, int32_t other_token) {
    if (other > logit || (other == logit && other_token < token)) {
      logit = other;
      token = other_token;
    }
  }
};

__device__ Candidate WarpLargest(Candidate mine) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const float logit = __shfl_xor_sync(0xffffffffU, mine.logit, offset);
    const int32_t token = __shfl_xor_sync(0xffffffffU, mine.token, offset);
    mine.Take(logit, token);
  }
  return mine;
}

__global__ void __launch_bounds__(kThreads)
    ArgmaxKernel(const float* logits, int32_t vocab, SlotList list, int32_t* last_tokens,
                 int32_t* tokens_out) {
  WaitForEarlierKernels();
  const float* row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  Candidate mine;
  bool bad = false;
  if (vocab % 4 == 0) {
    for (int32_t i = threadIdx.x * 4; i < vocab; i += kThreads * 4) {
      const float4 values = *reinterpret_cast<const float4*>(row + i);
      mine.Take(values.x, i, bad);
      mine.Take(values.y, i + 1, bad);
      mine.Take(values.z, i + 2, bad);
      mine.Take(values.w, i + 3, bad);
    }
  } else {
    for (int32_t i = threadIdx.x; i < vocab; i += kThreads) mine.Take(row[i], i, bad);
  }
  if (mine.logit == -INFINITY) mine.token = vocab;  // loses against any that was found
  mine = WarpLargest(mine);
  __shared__ Candidate warps[kThreads / 32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  const bool can_draw = __syncthreads_or(bad ? 1 : 0) == 0;
  if (threadIdx.x >= 32) return;
  mine = WarpLargest(warps[threadIdx.x]);
  if (threadIdx.x == 0) {
    const int32_t token = mine.token == vocab ? 0 : mine.token;
    tokens_out[blockIdx.x] = can_draw ? token : kNoDraw;
    last_tokens[list.slots[blockIdx.x]] = token;
  }
}

}  // namespace

void LaunchArgmax(const float* logits, int32_t vocab, std::span<const int32_t> slots,
                  int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream) {
  for (size_t first = 0; first < slots.size(); first += SlotList::kMost) {
    const std::span<const int32_t> part =
        slots.subspan(first, std::min<size_t>(SlotList::kMost, slots.size() - first));
    SlotList list;
    std::ranges::copy(part, list.slots);
    LaunchOverlapped(ArgmaxKernel, static_cast<unsigned>(part.size()), kThreads, 0, stream,
                     logits + first * vocab, vocab, list, last_tokens, tokens_out + first);
  }
}

}  // namespace decant
