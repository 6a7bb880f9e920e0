#include "model/forward.h"

namespace decant {

TensorView Forward(Ops& ops, const DecoderWeights& weights, const StepBatch& batch) {
  ops.BeginStep(batch);
  const TensorView residual = ops.residual();
  const TensorView queries = ops.queries();
  const TensorView attended = ops.attended();
  const TensorView mlp_hidden = ops.mlp_hidden();

  ops.Embed(*weights.embedding, residual);
  for (int32_t index = 0; index < static_cast<int32_t>(weights.layers.size()); ++index) {
    const LayerWeights& layer = weights.layers[index];
    ops.NormQkvRopeAppend(index, layer, residual, queries);
    ops.Attention(index, queries, attended);
    ops.ProjectAdd(*layer.output, attended, residual);
    ops.NormGateUpSilu(layer, residual, mlp_hidden);
    ops.ProjectAdd(*layer.down, mlp_hidden, residual);
  }
  return residual;
}

TensorView Logits(Ops& ops, const DecoderWeights& weights, TensorView residual,
                  std::span<const int32_t> tokens) {
  return ops.NormHead(*weights.final_norm, *weights.head, residual, tokens);
}

}  // namespace decant
