#include "model/testing/tiny_model.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"

namespace decant::testing {
namespace {

/// The UTF-8 of the symbol that byte-level BPE spells a byte with (GPT-2's table).
std::string ByteSymbol(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

}  // namespace

GgufBuilder BuildTinyModel(const TinyModel& model) {
  DECANT_CHECK(model.vocab > 257 && model.vocab <= 256 + 27, "a vocabulary of {}", model.vocab);
  GgufBuilder builder;
  const std::string prefix = model.family + ".";
  builder.Set("general.architecture", model.family)
      .Set("general.name", std::string("tiny"))
      .Set(prefix + "block_count", static_cast<uint32_t>(model.layers))
      .Set(prefix + "context_length", static_cast<uint32_t>(model.max_positions))
      .Set(prefix + "embedding_length", static_cast<uint32_t>(model.hidden))
      .Set(prefix + "feed_forward_length", static_cast<uint32_t>(model.intermediate))
      .Set(prefix + "attention.head_count", static_cast<uint32_t>(model.heads))
      .Set(prefix + "attention.head_count_kv", static_cast<uint32_t>(model.kv_heads))
      .Set(prefix + "attention.key_length", static_cast<uint32_t>(model.head_dim))
      .Set(prefix + "attention.layer_norm_rms_epsilon", 1e-5F)
      .Set(prefix + "rope.freq_base", 10000.0F);

  std::vector<std::string> tokens;
  tokens.reserve(model.vocab);
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteSymbol(byte));
  std::vector<std::string> merges;
  for (char c = 'a'; static_cast<int32_t>(tokens.size()) + 1 < model.vocab; ++c) {
    merges.push_back(fmt::format("{} {}", c, c));
    tokens.push_back(fmt::format("{}{}", c, c));
  }
  tokens.emplace_back("<end>");
  std::vector<int32_t> types(tokens.size(), 1);
  types.back() = 3;
  builder.Set("tokenizer.ggml.model", std::string("gpt2"))
      .Set("tokenizer.ggml.pre", std::string("smollm"))
      .Set("tokenizer.ggml.tokens", tokens)
      .Set("tokenizer.ggml.token_type", types)
      .Set("tokenizer.ggml.merges", merges)
      .Set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(model.vocab - 1));

  uint64_t seed = model.seed * 1000;
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols, float scale = 0.2F) {
    builder.AddRandomTensor(name, {cols, rows}, model.type, seed++, scale);
  };
  const auto vector = [&](const std::string& name, int64_t size, float low, float high) {
    std::vector<float> values(size);
    for (int64_t i = 0; i < size; ++i) {
      values[i] = low + (high - low) * static_cast<float>(i * 37 % 101) / 100.0F;
    }
    builder.AddTensor(name, {size}, GgmlType::kF32, values);
  };
  const int64_t q_rows = int64_t{model.heads} * model.head_dim;
  const int64_t kv_rows = int64_t{model.kv_heads} * model.head_dim;
  builder.AddRandomTensor("token_embd.weight", {model.hidden, model.vocab}, model.type, seed++,
                          1.0F);
  for (int32_t i = 0; i < model.layers; ++i) {
    const std::string layer = fmt::format("blk.{}.", i);
    vector(layer + "attn_norm.weight", model.hidden, 0.5F, 1.5F);
    matrix(layer + "attn_q.weight", q_rows, model.hidden);
    matrix(layer + "attn_k.weight", kv_rows, model.hidden);
    matrix(layer + "attn_v.weight", kv_rows, model.hidden);
    if (model.family == "qwen2") {
      vector(layer + "attn_q.bias", q_rows, -0.5F, 0.5F);
      vector(layer + "attn_k.bias", kv_rows, -0.5F, 0.5F);
      vector(layer + "attn_v.bias", kv_rows, -0.2F, 0.2F);
    }
    if (model.family == "qwen3") {
      vector(layer + "attn_q_norm.weight", model.head_dim, 0.5F, 1.5F);
      vector(layer + "attn_k_norm.weight", model.head_dim, 0.7F, 1.2F);
    }
    matrix(layer + "attn_output.weight", model.hidden, q_rows);
    vector(layer + "ffn_norm.weight", model.hidden, 0.5F, 1.5F);
    const float scale = i == model.overflowing_layer ? 1e22F : 0.2F;
    matrix(layer + "ffn_gate.weight", model.intermediate, model.hidden, scale);
    matrix(layer + "ffn_up.weight", model.intermediate, model.hidden, scale);
    matrix(layer + "ffn_down.weight", model.hidden, model.intermediate);
  }
  vector("output_norm.weight", model.hidden, 0.5F, 1.5F);
  if (!model.tied_head) matrix("output.weight", model.vocab, model.hidden);
  return builder;
}

}  // namespace decant::testing
