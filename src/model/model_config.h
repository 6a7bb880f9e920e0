#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/ops.h"
#include "weights/gguf.h"

namespace decant {

/// How a file orders the rows of q and k within a head.
enum class RopePairs {
  kHalves,       ///< dims i and i + head_dim / 2 rotate together (what the operations compute)
  kInterleaved,  ///< dims 2i and 2i + 1 do: llama's GGUF files, whose rows are reordered on load
};

/// What a decoder of the llama kind is: one description for all families.
struct ModelConfig {
  std::string family;  ///< "llama", "qwen2"
  std::string name;    ///< As the file calls itself.
  DecoderShape shape;
  RopePairs file_rope_pairs = RopePairs::kHalves;
  float rope_base = 0;  ///< theta: pair i turns by theta^(-2i / head_dim) before any scaling.
  bool qkv_bias = false;
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

}  // namespace decant
