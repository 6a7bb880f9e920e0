#include "model/model_config.h"

#include <cmath>
#include <string_view>

namespace decant {
namespace {

struct Family {
  std::string_view name;
  RopePairs pairs;
};

constexpr Family kFamilies[] = {{"llama", RopePairs::kInterleaved}, {"qwen2", RopePairs::kHalves}};

Status CheckRange(const GgufFile& file, std::string_view what, int64_t value, int64_t low,
                  int64_t high) {
  if (value >= low && value <= high) return {};
  return DataLoss("{}: {} is {}; {} to {} is supported", file.path(), what, value, low, high);
}

Status RefuseUnsupported(const GgufFile& file, const std::string& prefix) {
  const GgufMetadata& metadata = file.metadata();
  if (metadata.Has(prefix + "rope.scaling.type")) {
    DECANT_ASSIGN_OR_RETURN(const std::string_view type,
                            metadata.GetString(prefix + "rope.scaling.type"));
    if (type != "none") {
      return Error(StatusCode::kUnimplemented, "{}: RoPE scaling '{}' is not supported",
                   file.path(), type);
    }
  }
  for (const char* key : {"attention.sliding_window", "expert_count"}) {
    DECANT_ASSIGN_OR_RETURN(const uint32_t value, metadata.GetU32Or(prefix + key, 0));
    if (value != 0) {
      return Error(StatusCode::kUnimplemented, "{}: {}{} = {} is not supported", file.path(),
                   prefix, key, value);
    }
  }
  if (file.Find("rope_freqs.weight") != nullptr) {
    return Error(StatusCode::kUnimplemented, "{}: RoPE frequency factors are not supported",
                 file.path());
  }
  return {};
}

}  // namespace

Expected<ModelConfig> ReadModelConfig(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  DECANT_ASSIGN_OR_RETURN(const std::string_view architecture,
                          metadata.GetString("general.architecture"));
  const Family* family = nullptr;
  for (const Family& candidate : kFamilies) {
    if (candidate.name == architecture) family = &candidate;
  }
  if (family == nullptr) {
    return Error(StatusCode::kUnimplemented,
                 "{}: architecture '{}' is not supported; supported: llama, qwen2", file.path(),
                 architecture);
  }
  ModelConfig config;
  config.family = family->name;
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
  DECANT_ASSIGN_OR_RETURN(const float rope_base,
                          metadata.GetF32Or(prefix + "rope.freq_base", 10000.0F));

  DECANT_RETURN_IF_ERROR(CheckRange(file, "block_count", shape.layers, 1, 1024));
  DECANT_RETURN_IF_ERROR(CheckRange(file, "embedding_length", shape.hidden, 32, 65536));
  DECANT_RETURN_IF_ERROR(CheckRange(file, "attention.head_count", shape.heads, 1, 1024));
  DECANT_RETURN_IF_ERROR(
      CheckRange(file, "attention.head_count_kv", shape.kv_heads, 1, shape.heads));
  DECANT_RETURN_IF_ERROR(CheckRange(file, "feed_forward_length", shape.intermediate, 32, 1 << 20));
  DECANT_RETURN_IF_ERROR(CheckRange(file, "context_length", shape.max_positions, 1, 1 << 20));
  if (shape.heads % shape.kv_heads != 0 || shape.group() > 16) {
    return DataLoss(
        "{}: {} heads on {} KV heads; a whole number of 1 to 16 heads each is supported",
        file.path(), shape.heads, shape.kv_heads);
  }
  DECANT_ASSIGN_OR_RETURN(shape.head_dim, metadata.GetI32Or(prefix + "attention.key_length",
                                                            shape.hidden / shape.heads));
  DECANT_ASSIGN_OR_RETURN(const int32_t rotated,
                          metadata.GetI32Or(prefix + "rope.dimension_count", shape.head_dim));
  DECANT_RETURN_IF_ERROR(CheckRange(file, "head dimension", shape.head_dim, 32, 256));
  if (shape.head_dim % 32 != 0 || rotated != shape.head_dim) {
    return Error(
        StatusCode::kUnimplemented,
        "{}: head dimension {} with {} rotated; a multiple of 32, all rotated, is supported",
        file.path(), shape.head_dim, rotated);
  }
  if (!(shape.norm_epsilon > 0) || !(rope_base > 0) || !std::isfinite(rope_base)) {
    return DataLoss("{}: norm epsilon {} and RoPE base {} must be positive", file.path(),
                    shape.norm_epsilon, rope_base);
  }
  config.rope_base = rope_base;
  // In float, as the reference implementation computes them.
  for (int32_t i = 0; i < shape.head_dim; i += 2) {
    shape.rope_frequencies.push_back(
        1.0F / std::pow(rope_base, static_cast<float>(i) / static_cast<float>(shape.head_dim)));
  }

  DECANT_ASSIGN_OR_RETURN(const TensorInfo* embedding, file.Require("token_embd.weight"));
  if (embedding->dims.size() != 2 || embedding->rows() > (1 << 24)) {
    return DataLoss("{}: token_embd.weight is not a matrix of at most 2^24 rows", file.path());
  }
  shape.vocab = static_cast<int32_t>(embedding->rows());
  config.tied_head = file.Find("output.weight") == nullptr;
  config.qkv_bias = file.Find("blk.0.attn_q.bias") != nullptr;

  if (metadata.Has("tokenizer.ggml.eos_token_id")) {
    DECANT_ASSIGN_OR_RETURN(const int32_t eos, metadata.GetI32("tokenizer.ggml.eos_token_id"));
    DECANT_RETURN_IF_ERROR(CheckRange(file, "eos_token_id", eos, 0, shape.vocab - 1));
    config.stop_tokens.push_back(eos);
  }
  return config;
}

}  // namespace decant
