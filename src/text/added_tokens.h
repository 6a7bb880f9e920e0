#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer_data.h"

namespace decant {

/// Whether text may name control tokens.
enum class SpecialTokens {
  kAsText,  ///< "<|im_end|>" is ten characters. For text of a user.
  kParse,   ///< "<|im_end|>" is the token. For text of a chat template.
};

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

/// Finds the tokens that stand for themselves in text, leftmost first, the longest where several
/// begin at the same place, with the rules of the Python `tokenizers` library (AddedToken).
class AddedTokens {
 public:
  struct Token {
    std::string text;  ///< What is looked for.
    AddedTokenRule rule;
    bool control = false;
  };

  /// A part of a text: an added token, with the white space that it takes, or what lies between.
  struct Section {
    size_t begin = 0;  ///< Byte offsets.
    size_t end = 0;
    std::optional<int32_t> id;
  };

 private:
  struct Match {
    size_t begin = 0;
    size_t length = 0;
    const Token* token = nullptr;
  };

 public:
  AddedTokens() = default;

  static constexpr size_t kMaxTextBytes = 512;  ///< Of one token: what a search may look at.

  /// kInvalidArgument names a text that is empty, too long or that two tokens share.
  static Expected<AddedTokens> Create(std::vector<Token> tokens);

  /// Goes through a text's sections in order; none is empty.
  class Sections {
   public:
    /// `tokens`, `text` and `as_text` must outlive it. Under kParse, control tokens that overlap
    /// one of `as_text`, which are in order and apart, are text all the same.
    Sections(const AddedTokens& tokens, std::string_view text, SpecialTokens policy,
             std::span<const TextRange> as_text = {})
        : tokens_(&tokens), text_(text), policy_(policy), as_text_(as_text) {}

    std::optional<Section> Next();

   private:
    std::optional<Section> NextToken();
    bool IsText(const Match& match);
    size_t SpaceBegin(size_t end) const;
    size_t SpaceEnd(size_t begin);

    const AddedTokens* tokens_;
    std::string_view text_;
    SpecialTokens policy_;
    std::span<const TextRange> as_text_;  ///< Those that do not end before the last match.
    size_t from_ = 0;                     ///< Where the search goes on.
    size_t covered_ = 0;                  ///< Where the last token's section ended.
    std::optional<Section> pending_;      ///< A token whose text before it was given first.
    size_t space_begin_ = 0;              ///< The last run of white space that a token took.
    size_t space_end_ = 0;
    bool done_ = false;
  };

  /// The id of a token by its whole text.
  std::optional<int32_t> IdOf(std::string_view text) const;

 private:
  /// The first match that begins at `from` or later. Takes O(length of the longest token) per byte.
  std::optional<Match> Find(std::string_view text, size_t from) const;
  std::optional<Match> LongestAt(std::string_view text, size_t begin) const;
  size_t FindFirstByte(std::string_view text, size_t from) const;

  std::vector<Token> tokens_;            ///< Sorted by text.
  std::array<bool, 256> begins_{};       ///< Bytes that a text begins with.
  std::optional<char> only_first_byte_;  ///< Where there is only one.
};

}  // namespace decant
