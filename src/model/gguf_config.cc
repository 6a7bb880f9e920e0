#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/model_config.h"
#include "weights/dequantize.h"

// The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.

namespace decant {
namespace {

struct Family {
  std::string_view name;
  RopePairs pairs;
};

constexpr Family kFamilies[] = {{"llama", RopePairs::kInterleaved},
                                {"qwen2", RopePairs::kHalves},
                                {"qwen3", RopePairs::kHalves}};

Status RefuseUnsupported(const GgufFile& file, const std::string& prefix) {
  const auto refuse = [&](const char* key, auto value) {
    return Error(StatusCode::kUnimplemented, "{}: {}{} = {} is not supported", file.path(), prefix,
                 key, value);
  };
  const GgufMetadata& metadata = file.metadata();
  for (const char* key : {"attention.sliding_window", "expert_count"}) {
    DECANT_ASSIGN_OR_RETURN(const uint32_t value, metadata.GetU32Or(prefix + key, 0));
    if (value != 0) return refuse(key, value);
  }
  for (const auto& [key, neutral] : {std::pair{"rope.scaling.yarn_log_multiplier", 0.0F},
                                     std::pair{"rope.scaling.yarn_ext_factor", 1.0F},
                                     std::pair{"rope.scaling.yarn_attn_factor", 1.0F}}) {
    DECANT_ASSIGN_OR_RETURN(const float value, metadata.GetF32Or(prefix + key, neutral));
    if (value != neutral) return refuse(key, value);
  }
  return {};
}

/// The divisors of the tensor that llama 3's conversion writes.
Expected<std::vector<float>> ReadDivisors(const GgufFile& file, const TensorInfo& tensor) {
  constexpr int64_t kMaxPairs = 1024;
  if (tensor.dims.size() != 1 || tensor.elements() > kMaxPairs || !CanDequantize(tensor.type)) {
    return DataLoss("{}: {} is not a list of at most {} numbers", file.path(), tensor.name,
                    kMaxPairs);
  }
  std::vector<float> divisors(tensor.elements());
  DECANT_RETURN_IF_ERROR(Dequantize(tensor.type, tensor.data, divisors).WithContext(tensor.name));
  return divisors;
}

Expected<RopeScaling> ReadScaling(const GgufFile& file, const std::string& prefix,
                                  int32_t max_positions) {
  const GgufMetadata& metadata = file.metadata();
  const std::string scaling_prefix = prefix + "rope.scaling.";
  RopeScaling scaling;
  DECANT_ASSIGN_OR_RETURN(const float old_factor,
                          metadata.GetF32Or(prefix + "rope.scale_linear", 1));
  DECANT_ASSIGN_OR_RETURN(scaling.factor, metadata.GetF32Or(scaling_prefix + "factor", old_factor));
  DECANT_ASSIGN_OR_RETURN(
      const std::string_view type,
      metadata.GetStringOr(scaling_prefix + "type", scaling.factor == 1 ? "none" : "linear"));
  if (type == "linear") {
    scaling.kind = RopeKind::kLinear;
  } else if (type == "yarn") {
    scaling.kind = RopeKind::kYarn;
    DECANT_ASSIGN_OR_RETURN(
        scaling.original_positions,
        metadata.GetI32Or(scaling_prefix + "original_context_length", max_positions));
    DECANT_ASSIGN_OR_RETURN(scaling.beta_fast,
                            metadata.GetF32Or(scaling_prefix + "yarn_beta_fast", 32));
    DECANT_ASSIGN_OR_RETURN(scaling.beta_slow,
                            metadata.GetF32Or(scaling_prefix + "yarn_beta_slow", 1));
    // llama.cpp multiplies the paper's scale by this one.
    if (metadata.Has(scaling_prefix + "attn_factor")) {
      DECANT_ASSIGN_OR_RETURN(const float times, metadata.GetF32(scaling_prefix + "attn_factor"));
      scaling.attention_factor = times * (1 + 0.1 * std::log(std::max(scaling.factor, 1.0)));
    }
  } else if (type != "none") {
    return Error(StatusCode::kUnimplemented,
                 "{}: {}type is '{}'; supported: none, linear, yarn, and the tensor "
                 "rope_freqs.weight",
                 file.path(), scaling_prefix, type);
  }
  const TensorInfo* divisors =
      file.Find(TensorName(TensorNaming::kGguf, TensorRole::kRopeDivisors));
  if (divisors != nullptr) {
    if (scaling.kind != RopeKind::kNone) {
      return Error(StatusCode::kUnimplemented, "{}: {} together with {}type '{}' is not supported",
                   file.path(), divisors->name, scaling_prefix, type);
    }
    scaling.kind = RopeKind::kDivisors;
    DECANT_ASSIGN_OR_RETURN(scaling.divisors, ReadDivisors(file, *divisors));
  }
  return scaling;
}

Expected<std::vector<int32_t>> ReadStopTokens(const GgufFile& file, int32_t vocab) {
  std::vector<int32_t> tokens;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (!file.metadata().Has(key)) continue;
    DECANT_ASSIGN_OR_RETURN(const int32_t id, file.metadata().GetI32(key));
    DECANT_RETURN_IF_ERROR(internal::CheckTokenId(file.path(), key, id, vocab));
    if (std::ranges::find(tokens, id) == tokens.end()) tokens.push_back(id);
  }
  return tokens;
}

}  // namespace

Expected<ModelConfig> ReadModelConfig(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  DECANT_ASSIGN_OR_RETURN(const std::string_view architecture,
                          metadata.GetString("general.architecture"));
  const auto* family = std::ranges::find(kFamilies, architecture, &Family::name);
  if (family == std::end(kFamilies)) {
    return Error(StatusCode::kUnimplemented,
                 "{}: general.architecture is '{}'; supported: llama, qwen2, qwen3", file.path(),
                 architecture);
  }
  ModelConfig config;
  config.family = family->name;
  config.tensor_naming = TensorNaming::kGguf;
  config.file_rope_pairs = family->pairs;
  DECANT_ASSIGN_OR_RETURN(const std::string_view name,
                          metadata.GetStringOr("general.name", "unnamed"));
  config.name = name;

  const std::string prefix = config.family + ".";
  DECANT_RETURN_IF_ERROR(RefuseUnsupported(file, prefix));
  DecoderShape& shape = config.shape;
  DECANT_ASSIGN_OR_RETURN(shape.layers, metadata.GetI32(prefix + "block_count"));
  DECANT_ASSIGN_OR_RETURN(shape.hidden, metadata.GetI32(prefix + "embedding_length"));
  DECANT_ASSIGN_OR_RETURN(shape.heads, metadata.GetI32(prefix + "attention.head_count"));
  DECANT_ASSIGN_OR_RETURN(shape.kv_heads,
                          metadata.GetI32Or(prefix + "attention.head_count_kv", shape.heads));
  DECANT_ASSIGN_OR_RETURN(shape.intermediate, metadata.GetI32(prefix + "feed_forward_length"));
  DECANT_ASSIGN_OR_RETURN(shape.max_positions, metadata.GetI32(prefix + "context_length"));
  DECANT_ASSIGN_OR_RETURN(shape.norm_epsilon,
                          metadata.GetF32(prefix + "attention.layer_norm_rms_epsilon"));
  DECANT_ASSIGN_OR_RETURN(config.rope_base, metadata.GetF32Or(prefix + "rope.freq_base", 10000.0F));
  DECANT_ASSIGN_OR_RETURN(
      shape.head_dim,
      metadata.GetI32Or(prefix + "attention.key_length", shape.hidden / std::max(shape.heads, 1)));
  for (const char* key : {"attention.value_length", "rope.dimension_count"}) {
    DECANT_ASSIGN_OR_RETURN(const int32_t dims, metadata.GetI32Or(prefix + key, shape.head_dim));
    if (dims != shape.head_dim) {
      return Error(StatusCode::kUnimplemented,
                   "{}: {}{} is {}, other than the {} dims of a head, which is not supported",
                   file.path(), prefix, key, dims, shape.head_dim);
    }
  }
  DECANT_ASSIGN_OR_RETURN(config.rope_scaling, ReadScaling(file, prefix, shape.max_positions));
  DECANT_RETURN_IF_ERROR(internal::FinishConfig(file.path(),
                                                {.layers = "block_count",
                                                 .hidden = "embedding_length",
                                                 .heads = "attention.head_count",
                                                 .kv_heads = "attention.head_count_kv",
                                                 .intermediate = "feed_forward_length",
                                                 .max_positions = "context_length",
                                                 .head_dim = "attention.key_length",
                                                 .norm_epsilon = "attention.layer_norm_rms_epsilon",
                                                 .rope_base = "rope.freq_base",
                                                 .rope_scaling = "rope.scaling"},
                                                config));

  const auto find = [&](TensorRole role) {
    return file.Find(TensorName(TensorNaming::kGguf, role));
  };
  DECANT_ASSIGN_OR_RETURN(const TensorInfo* embedding,
                          file.Require(TensorName(TensorNaming::kGguf, TensorRole::kEmbedding)));
  if (embedding->dims.size() != 2 || embedding->rows() > (1 << 24)) {
    return DataLoss("{}: {} is not a matrix of at most 2^24 rows", file.path(), embedding->name);
  }
  shape.vocab = static_cast<int32_t>(embedding->rows());
  config.tied_head = find(TensorRole::kHead) == nullptr;
  config.qkv_bias = find(TensorRole::kQueryBias) != nullptr;
  config.qk_norm = config.family == "qwen3";
  DECANT_ASSIGN_OR_RETURN(config.stop_tokens, ReadStopTokens(file, shape.vocab));
  return config;
}

}  // namespace decant
