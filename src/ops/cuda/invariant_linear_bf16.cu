#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/invariant_linear_sm90.cuh"

namespace decant {

const void* LinearKernelBf16(int32_t tile) { return LinearKernels<__nv_bfloat16>()[tile]; }

}  // namespace decant
