#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "ops/ops.h"
#include "weights/tensor_source.h"

namespace decant {

/// A decoder's weights, in the form of the operations that packed them.
struct DecoderWeights {
  std::unique_ptr<EmbeddingWeight> embedding;
  std::vector<LayerWeights> layers;
  std::unique_ptr<VectorWeight> final_norm;  ///< [hidden]
  std::unique_ptr<LinearWeight> head;        ///< [vocab, hidden]
};

/// Told of the files' bytes that are packed so far, and of all there are.
using LoadProgress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

/// Decodes and packs every weight, on the threads of `ops`. Memory beside the packed weights stays
/// small: rows are decoded as they are packed, and the pages of a file are let go of layer by
/// layer. The embedding goes on reading rows from the file. Errors name the tensor: missing, of
/// another shape than the description, of a type that cannot be decoded.
Expected<DecoderWeights> LoadDecoderWeights(const std::shared_ptr<const TensorSource>& source,
                                            const ModelConfig& config, Ops& ops,
                                            const LoadProgress& progress);

}  // namespace decant
