#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/split_work.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// Makes the work list of a step's decode rows, which must be kSplitMaxRows at most and have
/// contexts of 1 or more: the first step.counts->decode_rows of max_rows, or where there are no
/// counts the first step.decode_rows. One block; launched so that everything before it in the
/// stream is done.
void LaunchSplitItems(const StepArrays& step, int32_t max_rows, int32_t kv_heads, int32_t page_size,
                      const SplitWork& work, cudaStream_t stream);

}  // namespace decant
