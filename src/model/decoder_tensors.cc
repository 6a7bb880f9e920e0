#include "model/decoder_tensors.h"

#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <unordered_set>

#include "weights/dequantize.h"

namespace decant {
namespace {

/// The tensors outside the layers that are read.
std::vector<TensorRole> GlobalRoles(const ModelConfig& config) {
  std::vector<TensorRole> roles = {TensorRole::kEmbedding, TensorRole::kFinalNorm};
  if (!config.tied_head) roles.push_back(TensorRole::kHead);
  return roles;
}

/// Tensors that follow from the rest: the frequencies that old versions of transformers saved, the
/// divisors that the description has read, a head that is tied.
bool MayBeLeftOut(const ModelConfig& config, std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") ||
         name == TensorName(config.tensor_naming, TensorRole::kRopeDivisors) ||
         (config.tied_head && name == TensorName(config.tensor_naming, TensorRole::kHead));
}

}  // namespace

std::vector<int64_t> DecoderTensorDims(const DecoderShape& shape, TensorRole role) {
  const int64_t hidden = shape.hidden;
  const int64_t q_rows = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_rows = int64_t{shape.kv_heads} * shape.head_dim;
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {hidden, shape.vocab};
    case TensorRole::kRopeDivisors:
      return {shape.head_dim / 2};
    case TensorRole::kFinalNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kMlpNorm:
      return {hidden};
    case TensorRole::kQuery:
      return {hidden, q_rows};
    case TensorRole::kKey:
    case TensorRole::kValue:
      return {hidden, kv_rows};
    case TensorRole::kQueryBias:
      return {q_rows};
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return {kv_rows};
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return {shape.head_dim};
    case TensorRole::kAttentionOutput:
      return {q_rows, hidden};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {hidden, shape.intermediate};
    case TensorRole::kDown:
      return {shape.intermediate, hidden};
  }
  return {};
}

std::vector<TensorRole> DecoderLayerRoles(const ModelConfig& config) {
  std::vector<TensorRole> roles = {TensorRole::kAttentionNorm,
                                   TensorRole::kQuery,
                                   TensorRole::kKey,
                                   TensorRole::kValue,
                                   TensorRole::kAttentionOutput,
                                   TensorRole::kMlpNorm,
                                   TensorRole::kGate,
                                   TensorRole::kUp,
                                   TensorRole::kDown};
  if (config.qkv_bias) {
    roles.insert(roles.end(),
                 {TensorRole::kQueryBias, TensorRole::kKeyBias, TensorRole::kValueBias});
  }
  if (config.qk_norm) roles.insert(roles.end(), {TensorRole::kQueryNorm, TensorRole::kKeyNorm});
  return roles;
}

Expected<const TensorInfo*> FindDecoderTensor(const TensorSource& source, const ModelConfig& config,
                                              TensorRole role, int32_t layer) {
  DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor,
                          source.Require(TensorName(config.tensor_naming, role, layer)));
  const std::vector<int64_t> dims = DecoderTensorDims(config.shape, role);
  if (tensor->dims != dims) {
    return DataLoss("{}: {} is [{}]; the model's description needs [{}] (columns, rows)",
                    source.label(), tensor->name, fmt::join(tensor->dims, ", "),
                    fmt::join(dims, ", "));
  }
  if (!CanDequantize(tensor->type)) {
    return Error(StatusCode::kUnimplemented, "{}: {} is {}, which is not supported", source.label(),
                 tensor->name, GgmlTypeName(tensor->type));
  }
  return tensor;
}

Status CheckDecoderTensors(const TensorSource& source, const ModelConfig& config) {
  std::unordered_set<std::string_view> needed;
  for (const TensorRole role : GlobalRoles(config)) {
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor, FindDecoderTensor(source, config, role));
    needed.insert(tensor->name);
  }
  const std::vector<TensorRole> layer_roles = DecoderLayerRoles(config);
  for (int32_t layer = 0; layer < config.shape.layers; ++layer) {
    for (const TensorRole role : layer_roles) {
      DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor,
                              FindDecoderTensor(source, config, role, layer));
      needed.insert(tensor->name);
    }
  }
  for (const TensorInfo& tensor : source.tensors()) {
    if (needed.contains(tensor.name) || MayBeLeftOut(config, tensor.name)) continue;
    return Error(StatusCode::kUnimplemented,
                 "{}: {} has no place in a {} model of {} layers as decant computes it",
                 source.label(), tensor.name, config.family, config.shape.layers);
  }
  return {};
}

}  // namespace decant
