#pragma once

#include "model/decoder_weights.h"
#include "ops/ops.h"
#include "ops/step_batch.h"

namespace decant {

/// One pass through all layers for the packed tokens of a step. Appends K and V of every token to
/// its slot. Returns the last layer's residual [batch.tokens(), hidden], in the workspace of `ops`.
TensorView Forward(Ops& ops, const DecoderWeights& weights, const StepBatch& batch);

/// Logits [tokens.size(), vocab] in fp32 of some of the tokens of the batch that Forward has just
/// computed, in the workspace of `ops` until the next call.
TensorView Logits(Ops& ops, const DecoderWeights& weights, TensorView residual,
                  std::span<const int32_t> tokens);

}  // namespace decant
