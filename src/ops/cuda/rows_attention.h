#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/step_arrays.h"

namespace decant {

/// The decode kernel `rows`: one group of threads per row and KV head walks that row's whole
/// history by itself, so that the longest history of the batch sets the time. The query heads that
/// share a KV head share every load of K and V.
///
/// queries, attended: [tokens, heads * head_dim]; only the step's decode rows are computed. Any
/// page size; head_dim 64 or 128; 1 to 16 query heads a KV head.
void LaunchRowsAttention(CudaType type, const AttentionShape& shape, const StepArrays& step,
                         const CachePages& cache, const void* queries, void* attended,
                         cudaStream_t stream);

}  // namespace decant
