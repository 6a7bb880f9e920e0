#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace decant {

/// Waits until what ran before in the stream is done and its writes can be seen. Every kernel that
/// LaunchOverlapped starts calls it before it touches memory.
__device__ inline void WaitForEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the kernel after this one in the stream be set up, if it was started by LaunchOverlapped,
/// once all blocks have called this or are done.
__device__ inline void LetLaterKernelsStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Starts a kernel whose blocks may be set up while the kernel before it in the stream still ends
/// (programmatic dependent launch, compute capability 9.0; elsewhere an ordinary launch).
template <typename... Parameters, typename... Arguments>
void LaunchOverlapped(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                      cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace decant
