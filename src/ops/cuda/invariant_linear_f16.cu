#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/invariant_linear_sm90.cuh"

namespace decant {

const void* LinearKernelF16(int32_t tile) { return LinearKernels<__half>()[tile]; }

}  // namespace decant
