#include "text/vocabulary.h"

#include <utility>

#include "text/utf8.h"

namespace decant {
namespace {

Status CheckToken(std::string_view token, TokenType type, size_t id) {
  if (type < TokenType::kNormal || type > TokenType::kByte) {
    return InvalidArgument("token {} has no type: {}", id, static_cast<int>(type));
  }
  if (token.empty() && type != TokenType::kUnused) return InvalidArgument("token {} is empty", id);
  if (token.size() > Vocabulary::kMaxTokenBytes) {
    return InvalidArgument("token {} has {} bytes; at most {} are allowed", id, token.size(),
                           Vocabulary::kMaxTokenBytes);
  }
  if (!IsUtf8(token)) return InvalidArgument("token {}, {}, is not UTF-8", id, QuoteToken(token));
  return {};
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Expected<TokenType> TokenTypeFromGguf(int64_t number) {
  if (number < static_cast<int64_t>(TokenType::kNormal) ||
      number > static_cast<int64_t>(TokenType::kByte)) {
    return InvalidArgument("token type {}; allowed: 1 to 6", number);
  }
  return static_cast<TokenType>(number);
}

std::string QuoteToken(std::string_view text) {
  constexpr size_t kShown = 64;
  return fmt::format("'{}'{}", RepairUtf8(text.substr(0, kShown)),
                     text.size() > kShown ? "..." : "");
}

std::optional<uint8_t> ByteOfFallback(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') {
    return std::nullopt;
  }
  const int high = HexDigit(spelling[3]);
  const int low = HexDigit(spelling[4]);
  // The reference reads the two characters as a signed number, so that "+7" is 7.
  if (spelling[3] == '+' && low >= 0) return static_cast<uint8_t>(low);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

Expected<Vocabulary> Vocabulary::Create(const std::vector<std::string>& tokens,
                                        std::vector<TokenType> types) {
  if (tokens.empty()) return InvalidArgument("the vocabulary has no tokens");
  if (tokens.size() > kMaxTokens) {
    return InvalidArgument("the vocabulary has {} tokens; at most {} are allowed", tokens.size(),
                           kMaxTokens);
  }
  if (types.size() != tokens.size()) {
    return InvalidArgument("the vocabulary has {} tokens but {} token types", tokens.size(),
                           types.size());
  }
  size_t total = 0;
  for (size_t id = 0; id < tokens.size(); ++id) {
    DECANT_RETURN_IF_ERROR(CheckToken(tokens[id], types[id], id));
    total += tokens[id].size();
    if (total > kMaxTotalBytes) {
      return InvalidArgument("the tokens have more than {} bytes together", kMaxTotalBytes);
    }
  }
  Vocabulary vocabulary;
  vocabulary.types_ = std::move(types);
  vocabulary.text_.reserve(total);
  vocabulary.offsets_.reserve(tokens.size() + 1);
  vocabulary.offsets_.push_back(0);
  for (const std::string& token : tokens) {
    vocabulary.text_.insert(vocabulary.text_.end(), token.begin(), token.end());
    vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.text_.size()));
  }
  vocabulary.ids_ = StringIndex(tokens.size());
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) == TokenType::kUnused) continue;
    const int32_t first = vocabulary.ids_.Add(vocabulary.Spelling(id), id);
    if (first != id) {
      return InvalidArgument("tokens {} and {} are both {}", first, id,
                             QuoteToken(vocabulary.Spelling(id)));
    }
  }
  return vocabulary;
}

std::string_view Vocabulary::Spelling(int32_t id) const {
  if (!Has(id)) return {};
  const auto index = static_cast<size_t>(id);
  return {text_.data() + offsets_[index], offsets_[index + 1] - offsets_[index]};
}

TokenType Vocabulary::type(int32_t id) const {
  return Has(id) ? types_[static_cast<size_t>(id)] : TokenType::kUnused;
}

bool Vocabulary::is_control(int32_t id) const {
  const TokenType kind = type(id);
  return kind == TokenType::kControl || kind == TokenType::kUnknown;
}

}  // namespace decant
