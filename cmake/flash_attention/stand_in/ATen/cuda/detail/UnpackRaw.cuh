// Stands in for PyTorch's header of this name while FlashAttention is compiled without PyTorch.
// Named by the library's kernel with dropout, which is parsed and never instantiated.
#pragma once

#include <cstdint>
#include <tuple>

#include "ATen/cuda/CUDAGeneratorImpl.h"

namespace at::cuda::philox {

inline __host__ __device__ std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState) { return {0, 0}; }

}  // namespace at::cuda::philox
