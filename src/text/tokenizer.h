#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/splitter.h"
#include "text/tokenizer_data.h"
#include "text/vocabulary.h"

namespace decant {

/// Whether control tokens show in decoded text.
enum class ControlTokens { kHide, kShow };

/// Whether a text gets the tokens that its vocabulary puts around one (TokenizerData::prefix and
/// suffix; what the reference calls add_special_tokens).
enum class AddedAround { kNothing, kPrefixAndSuffix };

/// BPE as a file describes it: text is cut at added tokens, each section normalised and split, each
/// piece merged. Encode gives the ids, and Decode the text, that the Python `tokenizers` library
/// gives (tests/data/tokenizer/README.md and tests/data/tokenizer_kinds/README.md say where this is
/// tested and what Unicode version it holds for). Immutable and thread-safe once created.
class Tokenizer {
 public:
  static constexpr size_t kMaxTokens = Vocabulary::kMaxTokens;
  static constexpr size_t kMaxTokenBytes = Vocabulary::kMaxTokenBytes;

  /// Checks `data` and builds the tables. kInvalidArgument names the token, merge or id at fault:
  /// what Vocabulary::Create, Normalizer, Splitter, BpeModel, AddedTokens and Decoder refuse, a
  /// merge that is not "left right", that occurs twice, or that joins or makes a control token (so
  /// that no text can merge into one), an id out of range, add_bos without bos.
  static Expected<Tokenizer> Create(TokenizerData data);

  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  /// The ids of `text`. Ill-formed UTF-8 is read as RepairUtf8 (utf8.h) makes it. User-defined
  /// tokens are found under either policy, control tokens under kParse only, both before anything
  /// else, leftmost and longest first. What the vocabulary has no token for becomes its unknown
  /// token or, without one, is left out, as in the reference. Takes O(n log n).
  std::vector<int32_t> Encode(std::string_view text, SpecialTokens policy,
                              AddedAround around = AddedAround::kNothing) const;

  /// The ids of a prompt that a chat template made, whose control tokens are tokens but for those
  /// that overlap one of `as_text` (in order and apart): what a user wrote stays text.
  std::vector<int32_t> EncodePrompt(std::string_view text,
                                    std::span<const TextRange> as_text) const;

  /// The text of `tokens` as the decoder's steps make it, with U+FFFD for what is not UTF-8. Ids
  /// out of range have no text.
  std::string Decode(std::span<const int32_t> tokens, ControlTokens control) const;

  /// The bytes of a token inside a text, maybe a part of a code point; empty if out of range.
  /// Valid as long as the tokenizer.
  std::string_view TokenBytes(int32_t token) const;

  /// The token as the file spells it; empty if out of range.
  std::string_view Spelling(int32_t token) const { return vocabulary_->Spelling(token); }

  /// The id of the token whose bytes are `bytes`; an added token (control, user-defined) first.
  std::optional<int32_t> TokenId(std::string_view bytes) const;

  /// kUnused if out of range.
  TokenType type(int32_t token) const { return vocabulary_->type(token); }
  bool is_control(int32_t token) const { return vocabulary_->is_control(token); }

  int32_t vocab_size() const { return vocabulary_->size(); }

  /// What it was made from where that was one of GGUF's byte-level kinds; kSmolLm else.
  PreTokenizer pre_tokenizer() const { return pre_tokenizer_; }

  /// In words: "byte-level BPE", "BPE with byte fallback", "BPE of characters".
  std::string_view kind() const;

  std::span<const int32_t> prefix() const { return prefix_; }
  std::span<const int32_t> suffix() const { return suffix_; }
  std::optional<int32_t> bos() const { return bos_; }
  bool add_bos() const { return add_bos_; }
  std::span<const int32_t> eos() const { return eos_; }
  bool is_eos(int32_t token) const;

 private:
  friend class Detokenizer;
  class ModelSink;

  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, Normalizer normalizer, Splitter splitter,
            BpeModel model, Decoder decoder);

  Status AddTokens(const std::vector<AddedTokenRule>& rules);
  Status StoreBytes();
  void EncodeSections(AddedTokens::Sections sections, std::string_view text, SpecialTokens policy,
                      ModelSink& sink) const;
  void EncodeSection(std::string_view text, SpecialTokens policy, bool at_start,
                     ModelSink& sink) const;

  /// What a token gives to the decoder: its spelling, or the normalised text of an added token.
  std::string_view Decoded(int32_t token) const;

  PreTokenizer pre_tokenizer_ = PreTokenizer::kSmolLm;
  ModelRules rules_;
  std::unique_ptr<const Vocabulary> vocabulary_;
  Normalizer normalizer_;
  Splitter splitter_;
  BpeModel model_;
  Decoder decoder_;
  AddedTokens added_;             ///< Found in text as it is.
  AddedTokens added_normalized_;  ///< Found in normalised sections.
  std::vector<std::pair<int32_t, std::string>>
      normalized_spellings_;       ///< By id; those that differ.
  std::vector<char> bytes_;        ///< All tokens' bytes, one after the other.
  std::vector<uint32_t> offsets_;  ///< [vocab_size + 1] into bytes_.
  std::vector<int32_t> prefix_;
  std::vector<int32_t> suffix_;
  std::optional<int32_t> bos_;
  std::vector<int32_t> eos_;
  bool add_bos_ = false;
};

}  // namespace decant
