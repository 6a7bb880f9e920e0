#include "weights/tensor_names.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace decant {
namespace {

struct Names {
  TensorRole role;
  std::string_view gguf;
  std::string_view hugging_face;
  bool in_layer = true;
};

constexpr std::array<Names, 18> kNames = {{
    {TensorRole::kEmbedding, "token_embd.weight", "model.embed_tokens.weight", false},
    {TensorRole::kFinalNorm, "output_norm.weight", "model.norm.weight", false},
    {TensorRole::kHead, "output.weight", "lm_head.weight", false},
    {TensorRole::kRopeDivisors, "rope_freqs.weight", "", false},
    {TensorRole::kAttentionNorm, "attn_norm.weight", "input_layernorm.weight"},
    {TensorRole::kQuery, "attn_q.weight", "self_attn.q_proj.weight"},
    {TensorRole::kKey, "attn_k.weight", "self_attn.k_proj.weight"},
    {TensorRole::kValue, "attn_v.weight", "self_attn.v_proj.weight"},
    {TensorRole::kQueryBias, "attn_q.bias", "self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "attn_k.bias", "self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "attn_v.bias", "self_attn.v_proj.bias"},
    {TensorRole::kQueryNorm, "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {TensorRole::kKeyNorm, "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {TensorRole::kAttentionOutput, "attn_output.weight", "self_attn.o_proj.weight"},
    {TensorRole::kMlpNorm, "ffn_norm.weight", "post_attention_layernorm.weight"},
    {TensorRole::kGate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {TensorRole::kUp, "ffn_up.weight", "mlp.up_proj.weight"},
    {TensorRole::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
}};

}  // namespace

std::string TensorName(TensorNaming naming, TensorRole role, int32_t layer) {
  const Names& names = kNames[static_cast<size_t>(role)];
  const bool gguf = naming == TensorNaming::kGguf;
  const std::string_view name = gguf ? names.gguf : names.hugging_face;
  if (!names.in_layer) return std::string(name);
  return gguf ? fmt::format("blk.{}.{}", layer, name)
              : fmt::format("model.layers.{}.{}", layer, name);
}

}  // namespace decant
