#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/cuda/linear_finish.h"
#include "ops/cuda/step_arrays.h"

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

/// The same for a step's first step.counts->draws.samples tokens, of which there are `tokens` at
/// most: the launch depends on nothing else of the step, so that a graph of it serves many. They go
/// to tokens_out + step.counts->draws.turn * turn_stride and to the last tokens of their rows.
///   parts: [tokens, ArgmaxParts(vocab)]
void LaunchArgmaxOfFirst(const ArgmaxPart* parts, int32_t vocab, int32_t tokens,
                         const StepArrays& step, int32_t* last_tokens, int32_t* tokens_out,
                         int32_t turn_stride, cudaStream_t stream);

}  // namespace decant
