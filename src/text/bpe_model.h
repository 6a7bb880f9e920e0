#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/bpe.h"
#include "text/string_index.h"
#include "text/tokenizer_data.h"
#include "text/vocabulary.h"

namespace decant {

/// Turns a piece of text into tokens by merges: byte-level, or of characters with or without byte
/// fallback. Control tokens are never made of text, with one exception, the reference's: what no
/// token holds becomes ModelRules::unknown.
/// Thread-safe: const; the cache of pieces belongs to the thread.
class BpeModel {
 public:
  /// Room for what Encode works with, to be kept between pieces.
  struct Scratch {
    std::vector<int32_t> symbols;
  };

  /// `in_model[id]`: whether text may become the token.
  /// kInvalidArgument names a merge whose tokens are out of range or may not be made of text, or
  /// that occurs twice; an unknown token out of range.
  static Expected<BpeModel> Create(const Vocabulary& vocabulary, const std::vector<bool>& in_model,
                                   const ModelRules& rules, const std::vector<MergeRule>& merges);

  BpeModel(BpeModel&&) = default;
  BpeModel& operator=(BpeModel&&) = default;

  /// Appends the tokens of `piece` (well-formed UTF-8, not empty) to `out`. Takes O(n log n).
  void Encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  /// The token of a piece of text, if text can become it.
  std::optional<int32_t> Find(std::string_view piece) const { return whole_.Find(piece); }

 private:
  BpeModel(const ModelRules& rules, size_t merges);

  void IndexTokens(const Vocabulary& vocabulary, const std::vector<bool>& in_model);
  void IndexFallback(const Vocabulary& vocabulary, const std::vector<bool>& in_model);
  void FindCut(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges);
  void EncodeWord(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void Symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  int32_t SymbolOf(char32_t code_point) const;

  ModelRules rules_;
  BpeMerger merger_;
  uint64_t number_ = 0;      ///< Of this model in the process: what its cached pieces go by.
  std::vector<char> bytes_;  ///< Of all tokens that text can become, for whole_.
  StringIndex whole_;        ///< Those tokens by what they hold of a piece.
  std::array<int32_t, 256> low_symbols_{};  ///< Of bytes, or of code points below 256; or -1.
  std::unordered_map<char32_t, int32_t> symbols_;  ///< Of other code points.
  std::array<int32_t, 256> fallback_{};            ///< The token of each byte, or -1.
  std::string cut_;  ///< No token holds anything before this character; empty if there is none.
};

}  // namespace decant
