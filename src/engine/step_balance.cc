#include "engine/step_balance.h"

#include "base/check.h"
#include "tensor/bf16.h"

namespace decant {

StepBalance MakeStepBalance(const ModelConfig& config, const DecoderWeights& weights,
                            double bytes_per_second, double operations_per_second) {
  DECANT_CHECK(bytes_per_second > 0 && operations_per_second > 0);
  const DecoderShape& shape = config.shape;
  double weight_bytes = static_cast<double>(weights.head->bytes());
  for (const LayerWeights& layer : weights.layers) {
    weight_bytes += static_cast<double>(layer.qkv->bytes() + layer.output->bytes() +
                                        layer.gate_up->bytes() + layer.down->bytes());
  }
  const double attention_cells =
      2.0 * (shape.heads + shape.kv_heads) * shape.head_dim * shape.hidden;
  const double mlp_cells = 3.0 * shape.hidden * shape.intermediate;
  const double layers = shape.layers;
  return {.weights = weight_bytes / bytes_per_second,
          .position = static_cast<double>(config.KvBytesPerToken(sizeof(Bf16))) / bytes_per_second,
          .token = 2 * layers * (attention_cells + mlp_cells) / operations_per_second,
          .pair = 4 * layers * shape.heads * shape.head_dim / operations_per_second,
          .logits = 2.0 * shape.vocab * shape.hidden / operations_per_second};
}

}  // namespace decant
