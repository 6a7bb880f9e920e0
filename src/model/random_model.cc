#include "model/random_model.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/random.h"
#include "model/rope.h"

namespace decant {
namespace {

struct NamedShape {
  std::string_view name;
  std::string_view family;
  int32_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab, max_positions;
  float norm_epsilon, rope_base;
  bool qkv_bias, tied_head;
};

constexpr NamedShape kShapes[] = {
    {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e-6F, 1e6F, true, true},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 32768, 1e-6F, 1e6F, true, true},
    {"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e-6F, 1e6F, true, false},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 8192, 1e-5F, 1e5F, false, true},
    {"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 1e-5F, 5e5F, false, true},
    {"llama-3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 1e-5F, 5e5F, false,
     false},
    {"tiny", "llama", 4, 128, 2, 1, 64, 384, 256, 8192, 1e-5F, 1e4F, false, true}};

constexpr float kDeviation = 0.02F;
/// Half the width of a uniform distribution of that standard deviation.
const float kLimit = kDeviation * std::sqrt(3.0F);

/// Gives each matrix random numbers of its own.
class RandomMatrices {
 public:
  explicit RandomMatrices(uint64_t seed) : seeds_(seed) {}

  RowSource Next(int64_t rows, int64_t cols) {
    return RandomRowSource(rows, cols, {.seed = seeds_.Bits(next_++), .limit = kLimit});
  }

 private:
  CounterRng seeds_;
  uint64_t next_ = 0;
};

}  // namespace

std::vector<std::string_view> ShapeNames() {
  std::vector<std::string_view> names;
  for (const NamedShape& shape : kShapes) names.push_back(shape.name);
  return names;
}

Expected<ModelConfig> FindShape(std::string_view name) {
  for (const NamedShape& shape : kShapes) {
    if (shape.name != name) continue;
    ModelConfig config;
    config.family = shape.family;
    config.name = fmt::format("{} with random weights", shape.name);
    config.shape.layers = shape.layers;
    config.shape.hidden = shape.hidden;
    config.shape.heads = shape.heads;
    config.shape.kv_heads = shape.kv_heads;
    config.shape.head_dim = shape.head_dim;
    config.shape.intermediate = shape.intermediate;
    config.shape.vocab = shape.vocab;
    config.shape.max_positions = shape.max_positions;
    config.shape.norm_epsilon = shape.norm_epsilon;
    config.rope_base = shape.rope_base;
    config.qkv_bias = shape.qkv_bias;
    config.tied_head = shape.tied_head;
    DECANT_ASSIGN_OR_RETURN(RopeTable table, ComputeRope(shape.rope_base, shape.head_dim, {}));
    config.shape.rope_frequencies = std::move(table.frequencies);
    return config;
  }
  return InvalidArgument("--shape is '{}'; allowed: {}", name, fmt::join(ShapeNames(), ", "));
}

Expected<DecoderWeights> MakeRandomWeights(const ModelConfig& config, uint64_t seed, Ops& ops,
                                           const LoadProgress& progress) {
  const DecoderShape& shape = config.shape;
  const int64_t q_rows = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_rows = int64_t{shape.kv_heads} * shape.head_dim;
  RandomMatrices random(seed);
  const auto ones = [&] { return ops.PackVector(std::vector<float>(shape.hidden, 1.0F)); };
  DecoderWeights weights;
  const RowSource embedding = random.Next(shape.vocab, shape.hidden);
  weights.embedding = ops.PackEmbedding(embedding);
  weights.final_norm = ones();
  weights.head = ops.PackHead(
      *weights.final_norm, config.tied_head ? embedding : random.Next(shape.vocab, shape.hidden));
  for (int32_t i = 0; i < shape.layers; ++i) {
    LayerWeights layer;
    layer.attention_norm = ones();
    const RowSource q = random.Next(q_rows, shape.hidden);
    const RowSource k = random.Next(kv_rows, shape.hidden);
    const RowSource v = random.Next(kv_rows, shape.hidden);
    layer.qkv = ops.PackQkv(*layer.attention_norm, q, k, v);
    if (config.qkv_bias) {
      layer.qkv_bias = ops.PackVector(std::vector<float>(q_rows + 2 * kv_rows, 0.0F));
    }
    layer.output = ops.PackProjection(random.Next(shape.hidden, q_rows));
    layer.mlp_norm = ones();
    const RowSource gate = random.Next(shape.intermediate, shape.hidden);
    const RowSource up = random.Next(shape.intermediate, shape.hidden);
    layer.gate_up = ops.PackGateUp(*layer.mlp_norm, gate, up);
    layer.down = ops.PackProjection(random.Next(shape.hidden, shape.intermediate));
    weights.layers.push_back(std::move(layer));
    if (progress) progress(i + 1, shape.layers);
  }
  DECANT_RETURN_IF_ERROR(ops.FinishLoading());
  return weights;
}

}  // namespace decant
