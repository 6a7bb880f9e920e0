#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/cuda/linear_finish.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// residual [tokens, hidden] fp32 = table[id of each token], and the form that products read.
/// hidden: a multiple of 8.
void LaunchEmbedForm(CudaType type, const void* table, int32_t hidden, const StepArrays& step,
                     const int32_t* last_tokens, float* residual, const ResidualForm& form,
                     cudaStream_t stream);

/// The form of a residual [tokens, hidden] that something else has written.
void LaunchResidualForm(CudaType type, const float* residual, int32_t tokens, int32_t hidden,
                        const ResidualForm& form, cudaStream_t stream);

/// Row i of `to` = row tokens[i] of `from`.
void LaunchGatherForm(CudaType type, const ResidualForm& from, std::span<const int32_t> tokens,
                      int32_t hidden, const ResidualForm& to, cudaStream_t stream);

}  // namespace decant
