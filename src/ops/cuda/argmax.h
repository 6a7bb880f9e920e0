#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/cuda/linear_finish.h"

namespace decant {

/// Greedy sampling: for each i, tokens_out[i] = the first largest of logits row i, which also goes
/// to last_tokens[slots[i]]. NaN counts as -inf; where nothing is above -inf, token 0. Where a row
/// holds a NaN or +infinity, tokens_out[i] is kNoDraw (draw.h) instead.
///   logits: [slots.size(), vocab] fp32; slots: host memory
void LaunchArgmax(const float* logits, int32_t vocab, std::span<const int32_t> slots,
                  int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream);

/// The same tokens from what the head's LinearFinish::kArgmax leaves of the logits.
///   parts: [slots.size(), ArgmaxParts(vocab)]
void LaunchArgmaxOfParts(const ArgmaxPart* parts, int32_t vocab, std::span<const int32_t> slots,
                         int32_t* last_tokens, int32_t* tokens_out, cudaStream_t stream);

}  // namespace decant
