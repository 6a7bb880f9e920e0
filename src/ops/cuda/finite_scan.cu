#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/narrow.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/finite_scan_kernel.h"

namespace decant {
namespace {

constexpr int kThreads = 256;

__device__ float AsFloat(float value) { return value; }
template <typename T>
__device__ float AsFloat(T value) {
  return Element<T>::To(value);
}

__global__ void ForgetKernel(TokenFault* faults, int32_t tokens) {
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < tokens) faults[i] = {TokenFault::kNowhere, 0, 0, 0};
}

/// How many values of a row are infinite and how many NaN: no atomics, a row is one block's.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    LookKernel(const T* values, int64_t cols, int32_t place, TokenFault* faults) {
  TokenFault& fault = faults[blockIdx.x];
  if (fault.place != TokenFault::kNowhere)
    return;  // the same for all threads: the barrier is below
  const T* row = values + static_cast<int64_t>(blockIdx.x) * cols;
  int32_t infinities = 0;
  int32_t nans = 0;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    const float value = AsFloat(row[i]);
    infinities += isinf(value) ? 1 : 0;
    nans += isnan(value) ? 1 : 0;
  }
  if (__syncthreads_or(infinities + nans) == 0) return;
  __shared__ int32_t sums[2];
  if (threadIdx.x < 2) sums[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&sums[0], infinities);
  atomicAdd(&sums[1], nans);
  __syncthreads();
  if (threadIdx.x == 0) fault = {place, sums[0], sums[1], static_cast<int32_t>(cols)};
}

template <typename T>
void Look(const TensorView& view, int32_t place, TokenFault* faults, cudaStream_t stream) {
  LookKernel<<<static_cast<unsigned>(view.rows), kThreads, 0, stream>>>(
      reinterpret_cast<const T*>(view.data), view.cols, place, faults);
}

}  // namespace

void LaunchForgetFaults(TokenFault* faults, int32_t tokens, cudaStream_t stream) {
  ForgetKernel<<<CeilDiv(tokens, kThreads), kThreads, 0, stream>>>(faults, tokens);
}

void LaunchLookForFaults(const TensorView& view, int32_t place, TokenFault* faults,
                         cudaStream_t stream) {
  switch (view.dtype) {
    case DType::kF32:
      return Look<float>(view, place, faults, stream);
    case DType::kF16:
      return Look<__half>(view, place, faults, stream);
    case DType::kBf16:
      return Look<__nv_bfloat16>(view, place, faults, stream);
  }
}

}  // namespace decant
