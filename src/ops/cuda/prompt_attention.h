#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/prompt_tiles.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// Lets the device run the kernel with the shared memory it needs, and says how many groups of
/// warps share a tile there: fewer where shared memory is small. Once, before the first launch.
cudaError_t PreparePromptAttention(CudaType type, const AttentionShape& shape, int device,
                                   int32_t* groups);

/// The prompt kernel: causal attention of the step's prompt chunks, each query against all earlier
/// positions of its request and its own.
///
/// Keys are taken in tiles of 64 at absolute positions, dealt out by tile number among the `groups`
/// of one block, whose sums are merged in order, so that a query's bits depend neither on how its
/// prompt is cut into chunks nor on the rest of the batch.
/// queries, attended: [tokens, heads * head_dim]. Either cache layout; any page size that is a
/// multiple of 16; head_dim 64 or 128; any number of query heads a KV head. Nothing past a row's
/// context is read.
void LaunchPromptAttention(CudaType type, const AttentionShape& shape, int32_t groups,
                           const StepArrays& step, const CachePages& cache, const void* queries,
                           void* attended, cudaStream_t stream);

}  // namespace decant
