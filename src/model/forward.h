#pragma once

#include "model/decoder_weights.h"
#include "ops/ops.h"
#include "ops/step_batch.h"

namespace decant {

/// One pass through all layers for the packed tokens of a step. Appends K and V of every token to
/// its slot. Returns the logits [batch.logits_tokens.size(), vocab] in fp32, in the workspace of
/// `ops`.
TensorView Forward(Ops& ops, const DecoderWeights& weights, const StepBatch& batch);

}  // namespace decant
