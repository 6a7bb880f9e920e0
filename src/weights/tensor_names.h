#pragma once

#include <cstdint>
#include <string>

namespace decant {

/// Tensors of a decoder of the llama kind, by what they are.
enum class TensorRole {
  kEmbedding,
  kFinalNorm,
  kHead,
  kRopeDivisors,  ///< GGUF only: what each pair's frequency is divided by.
  // One of each in a layer, or none.
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionOutput,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
};

/// Who named the tensors.
enum class TensorNaming {
  kGguf,         ///< blk.0.attn_q.weight (llama.cpp's gguf-py, constants.py)
  kHuggingFace,  ///< model.layers.0.self_attn.q_proj.weight (transformers' modeling_llama.py)
};

/// The name of a tensor in a file; `layer` counts only where layers have one of their own. Empty
/// where files of that kind have no such tensor.
std::string TensorName(TensorNaming naming, TensorRole role, int32_t layer = 0);

}  // namespace decant
