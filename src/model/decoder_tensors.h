#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "weights/tensor_source.h"

namespace decant {

/// The dims of a tensor, the fastest first: {columns, rows} of a matrix.
std::vector<int64_t> DecoderTensorDims(const DecoderShape& shape, TensorRole role);

/// The roles that every layer of the decoder has.
std::vector<TensorRole> DecoderLayerRoles(const ModelConfig& config);

/// Finds a tensor under the name of the model's kind of file. Errors name the tensor: missing, of
/// another shape than the description's, of a type that cannot be decoded.
Expected<const TensorInfo*> FindDecoderTensor(const TensorSource& source, const ModelConfig& config,
                                              TensorRole role, int32_t layer = 0);

/// Checks that every tensor that the description needs is there, and that there is none that it has
/// no place for: computing without that one would give another model's text. Errors as above.
Status CheckDecoderTensors(const TensorSource& source, const ModelConfig& config);

}  // namespace decant
