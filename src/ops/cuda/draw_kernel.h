#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/draw.h"

namespace decant {

/// A step's draws, all in device memory. A block draws one row after another, in memory of its own.
struct DrawArgs {
  const RowDraw* rows;  ///< [row_count]
  int32_t row_count;
  const DrawBias* biases;
  const int32_t* banned;
  const float* logits;  ///< [row_count, vocab]
  int32_t vocab;
  TokenCount* counts;    ///< [slots, vocab]
  float* processed;      ///< [blocks, vocab]
  DrawCandidate* lists;  ///< [blocks, vocab]
  int32_t* last_tokens;  ///< [slots]
  int32_t* tokens_out;   ///< [row_count], or kNoDraw
};

/// Draws every row's token, and counts it where the row's penalties look at counts.
void LaunchDraw(const DrawArgs& args, int32_t blocks, cudaStream_t stream);

/// counts[token] = 1 for the tokens of a prompt; counts: [vocab], of one slot.
void LaunchMarkPrompt(const int32_t* prompt, int32_t length, int32_t vocab, TokenCount* counts,
                      cudaStream_t stream);

}  // namespace decant
