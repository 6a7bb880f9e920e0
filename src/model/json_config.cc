#include <algorithm>
#include <string_view>
#include <utility>

#include "model/model_config.h"

// The keys are those of transformers' configuration classes (LlamaConfig, Qwen2Config, Qwen3Config,
// MistralConfig), as versions 4 and 5 write them.

namespace decant {
namespace {

struct Family {
  std::string_view model_type;
  std::string_view architecture;
};

constexpr Family kFamilies[] = {{"llama", "LlamaForCausalLM"},
                                {"qwen2", "Qwen2ForCausalLM"},
                                {"qwen3", "Qwen3ForCausalLM"},
                                {"mistral", "MistralForCausalLM"}};

Status Refuse(const JsonMetadata& json, std::string_view key, std::string_view allowed) {
  return Error(StatusCode::kUnimplemented, "{}: {} is {}, which is not supported; supported: {}",
               json.source(), json.KeyName(key), json.Describe(key), allowed);
}

Expected<const Family*> FindFamily(const JsonMetadata& json) {
  DECANT_ASSIGN_OR_RETURN(const std::string model_type, json.GetString("model_type"));
  const Family* family = std::ranges::find(kFamilies, model_type, &Family::model_type);
  if (family == std::end(kFamilies)) {
    return Refuse(json, "model_type", "llama, qwen2, qwen3, mistral");
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<std::string> architectures,
                          json.GetStringList("architectures"));
  if (!architectures.empty() &&
      std::ranges::find(architectures, family->architecture) == architectures.end()) {
    return Refuse(json, "architectures", family->architecture);
  }
  return family;
}

/// What the families' layers do not have.
Status RefuseUnsupported(const JsonMetadata& json) {
  if (json.Has("quantization_config")) {
    return Refuse(json, "quantization_config", "weights in F32, F16 or BF16, and GGUF files");
  }
  DECANT_ASSIGN_OR_RETURN(const std::string activation, json.GetStringOr("hidden_act", "silu"));
  if (activation != "silu") return Refuse(json, "hidden_act", "silu");
  DECANT_ASSIGN_OR_RETURN(const bool mlp_bias, json.GetBoolOr("mlp_bias", false));
  if (mlp_bias) return Refuse(json, "mlp_bias", "false");
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    DECANT_ASSIGN_OR_RETURN(const int32_t experts, json.GetI32Or(key, 0));
    if (experts > 0) return Refuse(json, key, "models without experts");
  }
  return {};
}

/// Refuses a window that would hide positions. transformers takes the window from the first layer
/// max_window_layers on in qwen2 and qwen3, in every layer of mistral, and not at all in llama.
Status RefuseSlidingWindow(const JsonMetadata& json, const ModelConfig& config) {
  if (config.family == "llama") return {};
  DECANT_ASSIGN_OR_RETURN(const std::vector<std::string> layer_types,
                          json.GetStringList("layer_types"));
  for (const std::string& type : layer_types) {
    if (type != "full_attention") return Refuse(json, "layer_types", "full_attention");
  }
  if (config.family == "mistral") {
    // MistralConfig's own value where the key is missing. A null counts as missing everywhere else.
    constexpr int32_t kDefault = 4096;
    if (json.IsNull("sliding_window")) return {};
    DECANT_ASSIGN_OR_RETURN(const int32_t window, json.GetI32Or("sliding_window", kDefault));
    if (window >= config.shape.max_positions) return {};
    return Error(StatusCode::kUnimplemented,
                 "{}: sliding_window is {}{}, fewer than the {} positions of "
                 "max_position_embeddings, which is not supported; supported: null",
                 json.source(), window, json.Has("sliding_window") ? "" : " where it is not given",
                 config.shape.max_positions);
  }
  DECANT_ASSIGN_OR_RETURN(const bool used, json.GetBoolOr("use_sliding_window", false));
  if (!used || !json.Has("sliding_window")) return {};
  DECANT_ASSIGN_OR_RETURN(const int32_t window, json.GetI32("sliding_window"));
  DECANT_ASSIGN_OR_RETURN(const int32_t first, json.GetI32Or("max_window_layers", 0));
  if (first >= config.shape.layers || window >= config.shape.max_positions) return {};
  return Refuse(json, "use_sliding_window",
                fmt::format("false (sliding_window is {}, from layer {} on)", window, first));
}

Status ReadYarn(const JsonMetadata& block, int32_t max_positions, RopeScaling& scaling) {
  scaling.kind = RopeKind::kYarn;
  DECANT_ASSIGN_OR_RETURN(scaling.factor,
                          block.GetF64Or("factor", static_cast<double>(max_positions) /
                                                       std::max(scaling.original_positions, 1)));
  // A zero stands for the default, as in the reference.
  DECANT_ASSIGN_OR_RETURN(const double beta_fast, block.GetF64Or("beta_fast", 0));
  DECANT_ASSIGN_OR_RETURN(const double beta_slow, block.GetF64Or("beta_slow", 0));
  if (beta_fast != 0) scaling.beta_fast = beta_fast;
  if (beta_slow != 0) scaling.beta_slow = beta_slow;
  if (block.Has("attention_factor")) {
    DECANT_ASSIGN_OR_RETURN(scaling.attention_factor, block.GetF64("attention_factor"));
  }
  DECANT_ASSIGN_OR_RETURN(scaling.mscale, block.GetF64Or("mscale", 0));
  DECANT_ASSIGN_OR_RETURN(scaling.mscale_all_dim, block.GetF64Or("mscale_all_dim", 0));
  DECANT_ASSIGN_OR_RETURN(scaling.truncate, block.GetBoolOr("truncate", true));
  return {};
}

/// The parameters in rope_scaling (transformers 4) or rope_parameters (5).
Expected<RopeScaling> ReadScaling(const JsonMetadata& json, const JsonMetadata& block,
                                  int32_t max_positions) {
  if (const std::vector<std::string> nested = block.ObjectKeys(); !nested.empty()) {
    return Refuse(block, nested[0], "one set of parameters for all layers");
  }
  RopeScaling scaling;
  const char* type_key = block.Has("rope_type") ? "rope_type" : "type";
  DECANT_ASSIGN_OR_RETURN(const std::string type, block.GetStringOr(type_key, "default"));
  DECANT_ASSIGN_OR_RETURN(scaling.original_positions,
                          block.GetI32Or("original_max_position_embeddings", max_positions));
  DECANT_ASSIGN_OR_RETURN(
      scaling.original_positions,
      json.GetI32Or("original_max_position_embeddings", scaling.original_positions));
  if (type == "linear") {
    scaling.kind = RopeKind::kLinear;
    DECANT_ASSIGN_OR_RETURN(scaling.factor, block.GetF64("factor"));
  } else if (type == "llama3") {
    scaling.kind = RopeKind::kLlama3;
    DECANT_ASSIGN_OR_RETURN(scaling.factor, block.GetF64("factor"));
    DECANT_ASSIGN_OR_RETURN(scaling.low_freq_factor, block.GetF64("low_freq_factor"));
    DECANT_ASSIGN_OR_RETURN(scaling.high_freq_factor, block.GetF64("high_freq_factor"));
  } else if (type == "yarn") {
    DECANT_RETURN_IF_ERROR(ReadYarn(block, max_positions, scaling));
  } else if (type != "default") {
    return Refuse(block, type_key, "default, linear, llama3, yarn");
  }
  return scaling;
}

/// Base and scaling, by the reference's precedence: what stands in the block, then beside it.
Status ReadRope(const JsonMetadata& json, ModelConfig& config, std::string_view& block_key) {
  DECANT_ASSIGN_OR_RETURN(double base, json.GetF64Or("rope_theta", 10000));
  DECANT_ASSIGN_OR_RETURN(double rotated, json.GetF64Or("partial_rotary_factor", 1));
  const JsonMetadata* holder = &json;
  block_key = json.Has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  Expected<JsonMetadata> block = JsonMetadata::Parse(json.source(), "{}");
  if (json.Has(block_key)) {
    block = json.GetObject(block_key);
    if (!block.ok()) return block.status();
    DECANT_ASSIGN_OR_RETURN(config.rope_scaling,
                            ReadScaling(json, *block, config.shape.max_positions));
    DECANT_ASSIGN_OR_RETURN(base, block->GetF64Or("rope_theta", base));
    if (block->Has("partial_rotary_factor")) holder = &*block;
    DECANT_ASSIGN_OR_RETURN(rotated, holder->GetF64Or("partial_rotary_factor", rotated));
  }
  if (rotated != 1) return Refuse(*holder, "partial_rotary_factor", "1");
  config.rope_base = static_cast<float>(base);
  return {};
}

}  // namespace

Expected<ModelConfig> ReadModelConfig(const JsonMetadata& json) {
  DECANT_ASSIGN_OR_RETURN(const Family* family, FindFamily(json));
  DECANT_RETURN_IF_ERROR(RefuseUnsupported(json));
  ModelConfig config;
  config.family = family->model_type;
  config.tensor_naming = TensorNaming::kHuggingFace;
  config.file_rope_pairs = RopePairs::kHalves;
  const bool llama = config.family == "llama";

  DecoderShape& shape = config.shape;
  DECANT_ASSIGN_OR_RETURN(shape.layers, json.GetI32("num_hidden_layers"));
  DECANT_ASSIGN_OR_RETURN(shape.hidden, json.GetI32("hidden_size"));
  DECANT_ASSIGN_OR_RETURN(shape.heads, json.GetI32("num_attention_heads"));
  // The other families' classes have defaults of their own, which no file relies on.
  DECANT_ASSIGN_OR_RETURN(shape.kv_heads, llama ? json.GetI32Or("num_key_value_heads", shape.heads)
                                                : json.GetI32("num_key_value_heads"));
  DECANT_ASSIGN_OR_RETURN(shape.intermediate, json.GetI32("intermediate_size"));
  DECANT_ASSIGN_OR_RETURN(shape.max_positions, json.GetI32("max_position_embeddings"));
  DECANT_ASSIGN_OR_RETURN(shape.vocab, json.GetI32("vocab_size"));
  if (shape.vocab < 1 || shape.vocab > (1 << 24)) {
    return DataLoss("{}: vocab_size is {}; 1 to 2^24 is supported", json.source(), shape.vocab);
  }
  DECANT_ASSIGN_OR_RETURN(const double epsilon, json.GetF64Or("rms_norm_eps", 1e-6));
  shape.norm_epsilon = static_cast<float>(epsilon);
  if (!json.Has("head_dim") && config.family != "qwen3" && shape.heads > 0 &&
      shape.hidden % shape.heads != 0) {
    return DataLoss(
        "{}: hidden_size {} is no multiple of num_attention_heads {}, and there is no "
        "head_dim",
        json.source(), shape.hidden, shape.heads);
  }
  DECANT_ASSIGN_OR_RETURN(shape.head_dim,
                          config.family == "qwen3"
                              ? json.GetI32("head_dim")
                              : json.GetI32Or("head_dim", shape.hidden / std::max(shape.heads, 1)));
  DECANT_ASSIGN_OR_RETURN(const bool attention_bias, json.GetBoolOr("attention_bias", false));
  config.qkv_bias = config.family == "qwen2" || attention_bias;
  config.qk_norm = config.family == "qwen3";
  // transformers 4 writes the one, 5 the other.
  DECANT_ASSIGN_OR_RETURN(const std::string torch_dtype, json.GetStringOr("torch_dtype", ""));
  DECANT_ASSIGN_OR_RETURN(config.stored_type, json.GetStringOr("dtype", torch_dtype));
  DECANT_ASSIGN_OR_RETURN(config.tied_head, json.GetBoolOr("tie_word_embeddings", false));

  std::string_view rope_key;
  DECANT_RETURN_IF_ERROR(ReadRope(json, config, rope_key));
  DECANT_RETURN_IF_ERROR(internal::FinishConfig(json.source(),
                                                {.layers = "num_hidden_layers",
                                                 .hidden = "hidden_size",
                                                 .heads = "num_attention_heads",
                                                 .kv_heads = "num_key_value_heads",
                                                 .intermediate = "intermediate_size",
                                                 .max_positions = "max_position_embeddings",
                                                 .head_dim = "head_dim",
                                                 .norm_epsilon = "rms_norm_eps",
                                                 .rope_base = "rope_theta",
                                                 .rope_scaling = rope_key},
                                                config));
  DECANT_RETURN_IF_ERROR(RefuseSlidingWindow(json, config));
  return config;
}

}  // namespace decant
