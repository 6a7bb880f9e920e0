#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/rope.h"
#include "ops/ops.h"
#include "weights/gguf.h"
#include "weights/json_metadata.h"
#include "weights/tensor_names.h"

namespace decant {

/// How a file orders the rows of q and k within a head.
enum class RopePairs {
  kHalves,       ///< dims i and i + head_dim / 2 rotate together (what the operations compute)
  kInterleaved,  ///< dims 2i and 2i + 1 do: llama's GGUF files, whose rows are reordered on load
};

/// What a decoder of the llama kind is: one description for all families and kinds of files.
struct ModelConfig {
  std::string family;  ///< "llama", "qwen2", "qwen3", "mistral"
  std::string name;    ///< As the file calls itself.
  /// What the weights were made in, as transformers calls it ("bfloat16"); empty: nobody says.
  std::string stored_type{};
  DecoderShape shape;
  TensorNaming tensor_naming = TensorNaming::kGguf;
  RopePairs file_rope_pairs = RopePairs::kHalves;
  float rope_base = 0;  ///< theta: pair i turns by theta^(-2i / head_dim) before any scaling.
  RopeScaling rope_scaling{};
  bool qkv_bias = false;
  bool qk_norm = false;              ///< RMSNorm of each q and k head.
  bool tied_head = false;            ///< The head is the embedding's matrix.
  std::vector<int32_t> stop_tokens;  ///< End-of-text ids.

  /// Bytes of K and V per position, over all layers, at `element_bytes` an element.
  int64_t KvBytesPerToken(int64_t element_bytes) const {
    return int64_t{2} * shape.layers * shape.kv_heads * shape.head_dim * element_bytes;
  }
};

/// Reads the description from GGUF metadata and tensor names. Errors: kUnimplemented for a family
/// or feature that decant does not compute (named), kDataLoss for values that contradict each
/// other.
Expected<ModelConfig> ReadModelConfig(const GgufFile& file);

/// The same from the config.json of a Hugging Face folder. Leaves name and stop tokens empty: they
/// stand elsewhere.
Expected<ModelConfig> ReadModelConfig(const JsonMetadata& config);

namespace internal {

/// What a kind of file calls the numbers of DecoderShape, for errors.
struct ShapeKeys {
  std::string_view layers, hidden, heads, kv_heads, intermediate, max_positions, head_dim;
  std::string_view norm_epsilon, rope_base, rope_scaling;
};

/// Checks the shape's numbers against what the operations take, then computes the rotary
/// frequencies from base and scaling. Where YaRN stretches the model past its stated positions,
/// those grow with it. `label` names the file in errors.
Status FinishConfig(std::string_view label, const ShapeKeys& keys, ModelConfig& config);

/// Checks that an id of the file's key is a token of the vocabulary.
Status CheckTokenId(std::string_view label, std::string_view key, int32_t id, int32_t vocab);

}  // namespace internal
}  // namespace decant
