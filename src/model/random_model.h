#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/decoder_weights.h"
#include "model/model_config.h"
#include "ops/ops.h"

namespace decant {

/// Shapes of known models, for measuring speed without their weights: "qwen2.5-0.5b",
/// "qwen2.5-1.5b", "qwen2.5-7b", "smollm2-135m", "llama-3.2-1b", "llama-3.1-8b". Numbers as in the
/// models' config.json. And "tiny": 0.8 million parameters and a token for each byte, no model's,
/// for tests of what lies around a model. Errors: another name, with the allowed ones.
Expected<ModelConfig> FindShape(std::string_view name);

std::vector<std::string_view> ShapeNames();

/// Weights of that shape, uniform around 0 with the standard deviation 0.02 that such models start
/// their training with; norms are 1, biases 0. A weight depends on `seed` and its place only, and
/// is made where it is used, on the device. The text of such a model means nothing.
Expected<DecoderWeights> MakeRandomWeights(const ModelConfig& config, uint64_t seed, Ops& ops,
                                           const LoadProgress& progress);

}  // namespace decant
