#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/string_index.h"
#include "text/tokenizer_data.h"

namespace decant {

/// A vocabulary's string for a message: short, and UTF-8 whatever it holds.
std::string QuoteToken(std::string_view text);

/// The byte that a byte token's spelling names: 0x0A for "<0x0A>", in either case.
std::optional<uint8_t> ByteOfFallback(std::string_view spelling);

/// Tokens by id and by spelling. Immutable; moves keep the bytes in place.
class Vocabulary {
 public:
  static constexpr size_t kMaxTokens = size_t{1} << 22;
  static constexpr size_t kMaxTokenBytes = 4096;             ///< Of one token's spelling.
  static constexpr size_t kMaxTotalBytes = size_t{1} << 30;  ///< Of all spellings together.

  Vocabulary() = default;

  /// kInvalidArgument names the token at fault: sizes over the limits above, types of another
  /// number than tokens, a token that is empty, not UTF-8 or a duplicate (two ids with one spelling
  /// would make text ambiguous). Unused tokens may be empty.
  static Expected<Vocabulary> Create(const std::vector<std::string>& tokens,
                                     std::vector<TokenType> types);

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  bool Has(int32_t id) const { return id >= 0 && id < size(); }

  /// As the file spells it; empty if out of range. Valid as long as the vocabulary.
  std::string_view Spelling(int32_t id) const;

  /// kUnused if out of range.
  TokenType type(int32_t id) const;
  bool is_control(int32_t id) const;

  /// The token that is spelled so, of whatever type but kUnused.
  std::optional<int32_t> Find(std::string_view spelling) const { return ids_.Find(spelling); }

 private:
  std::vector<char> text_;         ///< All spellings, one after the other.
  std::vector<uint32_t> offsets_;  ///< [size + 1] into text_.
  std::vector<TokenType> types_;   ///< [size]
  StringIndex ids_;
};

}  // namespace decant
