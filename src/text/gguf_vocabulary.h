#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer_data.h"

namespace decant {

/// The vocabulary of a GGUF file: its keys tokenizer.ggml.*, whose names stand beside.
struct GgufVocabulary {
  std::string model{};                     ///< "model": gpt2 or llama.
  std::optional<std::string> pre{};        ///< "pre"; of gpt2. Absent: "default".
  std::vector<std::string> tokens{};       ///< "tokens"
  std::vector<int32_t> types{};            ///< "token_type"; empty: all are normal.
  std::vector<std::string> merges{};       ///< "merges"; of gpt2.
  std::vector<float> scores{};             ///< "scores"; of llama.
  std::optional<int32_t> bos{};            ///< "bos_token_id"
  std::optional<int32_t> eos{};            ///< "eos_token_id"
  std::optional<int32_t> unknown{};        ///< "unknown_token_id"; of llama.
  std::optional<bool> add_bos{};           ///< "add_bos_token". Absent: of llama yes, of gpt2 no.
  std::optional<bool> add_eos{};           ///< "add_eos_token". Absent: no.
  std::optional<bool> add_space_prefix{};  ///< "add_space_prefix"; of llama. Absent: yes.
};

/// The data of a vocabulary. "gpt2" is byte-level BPE with one of gguf_pre_tokenizer.h's pipelines.
/// "llama" is SentencePiece's BPE: two neighbours merge if the text of both is a token, the highest
/// score first, then the leftmost; what is left over becomes its bytes' tokens. Its text has a
/// space before each section between control tokens, as in llama.cpp. kUnimplemented names another
/// model or pre-tokenizer; kInvalidArgument a type or score that is none. The tokens themselves are
/// Tokenizer::Create's to check.
Expected<TokenizerData> MakeGgufTokenizerData(GgufVocabulary vocabulary);

}  // namespace decant
