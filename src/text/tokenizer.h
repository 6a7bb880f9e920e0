#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/piece_splitter.h"
#include "text/string_index.h"

namespace decant {

/// What a token is, as in GGUF's tokenizer.ggml.token_type.
enum class TokenType {
  kNormal = 1,       ///< Bytes, spelled in byte symbols.
  kUnknown = 2,      ///< Treated as kControl.
  kControl = 3,      ///< Never text: ends, turns, roles.
  kUserDefined = 4,  ///< Text with an id of its own that no merge makes, such as "<tool_call>".
  kUnused = 5,       ///< A gap in the vocabulary.
};

/// The type with a GGUF number; kInvalidArgument for others. 6 (a byte of a SentencePiece model) is
/// refused too: a byte-level vocabulary spells bytes as symbols.
Expected<TokenType> TokenTypeFromGguf(int64_t number);

/// A vocabulary as a GGUF file holds it; hostile until Tokenizer::Create has looked at it.
struct TokenizerData {
  PreTokenizer pre_tokenizer = PreTokenizer::kSmolLm;
  std::vector<std::string> tokens;  ///< By id; kNormal tokens in byte symbols (byte_symbols.h).
  std::vector<TokenType> types;     ///< [tokens.size()]
  std::vector<std::string> merges;  ///< "left right", in order of rank.
  std::optional<int32_t> bos;       ///< The token that begins a text, if the model has one.
  std::vector<int32_t> eos;         ///< Tokens that end a text.
  bool add_bos = false;             ///< Whether prompts begin with `bos`.
};

/// Whether text may name control tokens.
enum class SpecialTokens {
  kAsText,  ///< "<|im_end|>" is ten characters. For text of a user.
  kParse,   ///< "<|im_end|>" is the token. For text of a chat template.
};

/// Whether control tokens show in decoded text.
enum class ControlTokens { kHide, kShow };

/// Byte-level BPE. Encode gives the ids, and Decode the text, that the Python `tokenizers` library
/// gives (tests/data/tokenizer/README.md says where this is tested and what Unicode version it
/// holds for). Immutable and thread-safe once created.
class Tokenizer {
 public:
  static constexpr size_t kMaxTokens = size_t{1} << 22;
  static constexpr size_t kMaxTokenBytes = 4096;             ///< Of one token's spelling.
  static constexpr size_t kMaxTotalBytes = size_t{1} << 30;  ///< Of all spellings together.

  /// Checks `data` and builds the tables. kInvalidArgument names the token, merge or id at fault:
  /// sizes over the limits above, types of another number than tokens, a token that is empty, not
  /// UTF-8 or a duplicate (two ids with one spelling would make text ambiguous), a merge that is
  /// not "left right", that occurs twice, or that joins or makes anything but normal tokens (so
  /// that no text can merge into a control token), bos or eos out of range, add_bos without bos.
  static Expected<Tokenizer> Create(TokenizerData data);

  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  /// The ids of `text`; no bos is added. Ill-formed UTF-8 is read as RepairUtf8 (utf8.h) makes it.
  /// User-defined tokens are found under either policy, control tokens under kParse only, both
  /// before anything else, leftmost and longest first. A byte that the vocabulary has no token for
  /// is left out, as in the reference. Takes O(n log n).
  std::vector<int32_t> Encode(std::string_view text, SpecialTokens policy) const;

  /// The text of `tokens`: their bytes, joined, with U+FFFD for what is not UTF-8. Ids out of range
  /// have no text.
  std::string Decode(std::span<const int32_t> tokens, ControlTokens control) const;

  /// The bytes of a token, maybe a part of a code point; empty if out of range. Control and
  /// user-defined tokens are their own text. Valid as long as the tokenizer.
  std::string_view TokenBytes(int32_t token) const;

  /// The id of the token whose bytes are `bytes`; an added token (control, user-defined) first.
  std::optional<int32_t> TokenId(std::string_view bytes) const;

  /// kUnused if out of range.
  TokenType type(int32_t token) const;
  bool is_control(int32_t token) const;

  int32_t vocab_size() const { return static_cast<int32_t>(types_.size()); }
  PreTokenizer pre_tokenizer() const { return pre_tokenizer_; }
  std::optional<int32_t> bos() const { return bos_; }
  bool add_bos() const { return add_bos_; }
  std::span<const int32_t> eos() const { return eos_; }
  bool is_eos(int32_t token) const;

 private:
  Tokenizer(PieceSplitter splitter, BpeMerger merger);

  void StoreBytes(const TokenizerData& data);
  void IndexTokens();
  void EncodeOrdinary(std::string_view text, std::vector<int32_t>& out) const;
  void AppendPiece(std::string_view piece, std::vector<int32_t>& symbols,
                   std::vector<int32_t>& out) const;

  PreTokenizer pre_tokenizer_ = PreTokenizer::kSmolLm;
  PieceSplitter splitter_;
  BpeMerger merger_;
  AddedTokens added_;
  std::vector<TokenType> types_;        ///< [vocab_size]
  std::vector<char> bytes_;             ///< All tokens' bytes, one after the other.
  std::vector<uint32_t> offsets_;       ///< [vocab_size + 1] into bytes_.
  std::array<int32_t, 256> symbols_{};  ///< The token of each single byte, or -1.
  StringIndex normal_;                  ///< Normal tokens by their bytes (in bytes_).
  std::vector<bool> whole_;  ///< [vocab_size] Whether merging a token's bytes gives the token.
  std::optional<int32_t> bos_;
  std::vector<int32_t> eos_;
  bool add_bos_ = false;
};

}  // namespace decant
