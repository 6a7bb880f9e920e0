#include "base/narrow.h"
#include "ops/cuda/draw_kernel.h"

namespace decant {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kAllLanes = 0xffffffffU;

struct BlockMemory {
  double scratch[kThreads];
  double warp_sums[kWarps];
  float warp_largest[kWarps];
  int32_t warp_counts[kWarps];
  int32_t token;
};

/// The block of draw.h. Each call that meets in shared memory ends with a barrier, so that the next
/// may use the memory again.
class CudaBlock {
 public:
  __device__ explicit CudaBlock(BlockMemory& memory) : memory_(memory) {}

  __device__ int32_t thread() const { return static_cast<int32_t>(threadIdx.x); }
  __device__ int32_t threads() const { return kThreads; }
  __device__ void Sync() { __syncthreads(); }
  __device__ double* scratch() { return memory_.scratch; }
  __device__ int32_t& token() { return memory_.token; }

  __device__ float Max(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
    }
    if (lane() == 0) memory_.warp_largest[warp()] = value;
    __syncthreads();
    value = memory_.warp_largest[lane()];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
    }
    __syncthreads();
    return value;
  }

  __device__ double Sum(double value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(kAllLanes, value, offset);
    }
    if (lane() == 0) memory_.warp_sums[warp()] = value;
    __syncthreads();
    value = memory_.warp_sums[lane()];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(kAllLanes, value, offset);
    }
    __syncthreads();
    return value;
  }

  __device__ int32_t Count(bool flag) { return __syncthreads_count(flag ? 1 : 0); }

  __device__ int32_t ExclusiveCount(bool flag, int32_t* all) {
    const uint32_t flags = __ballot_sync(kAllLanes, flag);
    if (lane() == 0) memory_.warp_counts[warp()] = __popc(flags);
    __syncthreads();
    int32_t before = __popc(flags & ((1U << lane()) - 1));
    *all = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp()) before += memory_.warp_counts[w];
      *all += memory_.warp_counts[w];
    }
    __syncthreads();
    return before;
  }

 private:
  __device__ int lane() const { return static_cast<int>(threadIdx.x % 32); }
  __device__ int warp() const { return static_cast<int>(threadIdx.x / 32); }

  BlockMemory& memory_;
};

__global__ void __launch_bounds__(kThreads) DrawKernel(DrawArgs args) {
  __shared__ BlockMemory memory;
  CudaBlock block(memory);
  const int64_t vocab = args.vocab;
  for (int32_t i = static_cast<int32_t>(blockIdx.x); i < args.row_count;
       i += static_cast<int32_t>(gridDim.x)) {
    const RowDraw row = args.rows[i];
    const float* logits = args.logits + i * vocab;
    TokenCount* counts = args.counts + row.slot * vocab;
    const bool can_draw = draw::CanDraw(block, logits, args.vocab);
    if (row.changes_logits()) {
      float* processed = args.processed + blockIdx.x * vocab;
      ProcessRow(block, row, logits, args.vocab, args.biases, args.banned, counts, processed);
      logits = processed;
    }
    const int32_t token =
        DrawToken(block, row, logits, args.vocab, args.lists + blockIdx.x * vocab);
    if (block.thread() == 0) {
      args.tokens_out[i] = can_draw ? token : kNoDraw;
      args.last_tokens[row.slot] = token;
      if (row.penalizes) counts[token] = max(counts[token], 1) + 1;
    }
    block.Sync();
  }
}

/// counts[token] = 1 for the tokens of a prompt.
__global__ void MarkPromptKernel(const int32_t* prompt, int32_t length, int32_t vocab,
                                 TokenCount* counts) {
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < length && prompt[i] >= 0 && prompt[i] < vocab) counts[prompt[i]] = 1;
}

}  // namespace

void LaunchDraw(const DrawArgs& args, int32_t blocks, cudaStream_t stream) {
  DrawKernel<<<blocks, kThreads, 0, stream>>>(args);
}

void LaunchMarkPrompt(const int32_t* prompt, int32_t length, int32_t vocab, TokenCount* counts,
                      cudaStream_t stream) {
  constexpr int32_t kMarkThreads = 256;
  MarkPromptKernel<<<CeilDiv(length, kMarkThreads), kMarkThreads, 0, stream>>>(prompt, length,
                                                                               vocab, counts);
}

}  // namespace decant
