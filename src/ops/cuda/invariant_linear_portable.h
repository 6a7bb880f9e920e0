#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// Queues a product with instructions that compute capability 8.0 has. Of the arguments it needs
/// neither a ring nor room to hand sums over; of the cut neither tiles. `input`: [tokens, cols] in
/// the weights' type, 16-byte aligned.
void LaunchPortableLinear(CudaType type, const LinearArguments& arguments, const void* input,
                          cudaStream_t stream);

}  // namespace decant
