// Stands in for PyTorch's header of this name while FlashAttention is compiled without PyTorch:
// where PyTorch throws, this keeps the first error of the thread for the caller to take.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>  // the library relies on PyTorch's header for it

namespace c10::cuda {

inline cudaError_t& FirstError() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

inline void KeepFirstError(cudaError_t error) {
  if (FirstError() == cudaSuccess) FirstError() = error;
}

/// The first error since the last call on this thread, or cudaSuccess.
inline cudaError_t TakeFirstError() {
  const cudaError_t error = FirstError();
  FirstError() = cudaSuccess;
  return error;
}

}  // namespace c10::cuda

#define C10_CUDA_CHECK(call) ::c10::cuda::KeepFirstError(call)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ::c10::cuda::KeepFirstError(cudaGetLastError())
