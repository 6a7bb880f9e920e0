#pragma once

#include <string_view>

#include "base/status.h"

namespace decant {

struct TokenizerPipeline;

/// The byte-level pipelines that GGUF's tokenizer.ggml.pre names (llama.cpp, src/llama-vocab.cpp;
/// the patterns are those of the models' own tokenizer.json).
enum class PreTokenizer {
  kSmolLm,         ///< Single digits first, then GPT-2's pattern.
  kQwen2,          ///< NFC, then Qwen2's pattern.
  kLlamaBpe,       ///< Llama 3's pattern; a piece that is a token is that token.
  kGpt2,           ///< GPT-2's pattern.
  kDeepSeekLlm,    ///< Line ends, words, punctuation, CJK, numbers.
  kDeepSeekCoder,  ///< The same with all of Unicode's letters, and single digits.
  kDefault,        ///< What llama.cpp does where a file names nothing.
};

/// The pre-tokenizer with a GGUF name, or kUnimplemented with the names that exist.
Expected<PreTokenizer> PreTokenizerFromName(std::string_view name);

/// The GGUF name: "smollm".
std::string_view PreTokenizerName(PreTokenizer pre_tokenizer);

/// Normalizer, splitter, model rules and decoder; no added tokens.
TokenizerPipeline ByteLevelPipeline(PreTokenizer pre_tokenizer);

}  // namespace decant
