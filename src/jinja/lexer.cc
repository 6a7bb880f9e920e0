#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>

#include "jinja/failure.h"
#include "jinja/string_literal.h"
#include "jinja/unicode.h"

namespace decant::jinja {

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameCharacter(char c) { return IsNameStart(c) || IsDigit(c); }

/// "\r\n" and "\r" become "\n"; one at the end goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size() && IsSpace(ReadCodePoint(text, at))) at += CodePointLength(text[at]);
  return at;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!IsSpace(ReadCodePoint(text, start))) break;
    text = text.substr(0, start);
  }
  return text;
}

class Lexer {
 public:
  Lexer(std::string source, int& line) : source_(std::move(source)), line_(line) { line_ = 1; }

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadData();
    Add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool LooksAt(std::string_view text) const { return rest().starts_with(text); }

  Token& Add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({.kind = kind, .line = line_, .text = std::move(text)});
    return tokens_.back();
  }

  /// Moves to `to`, counting lines.
  void MoveTo(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    line_starting_ = to > at_ && source_[to - 1] == '\n';
    at_ = to;
  }

  /// Text up to the next tag, and the tag.
  void ReadData() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        Add(TokenKind::kData, std::string(rest()));
        MoveTo(source_.size());
        return;
      }
      const char second = source_[tag + 1];
      if (second == '{' || second == '%' || second == '#') break;
      ++tag;
    }
    const char second = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const size_t inside = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    AddData(tag, sign, second == '{' ? LeftStrip::kNever : LeftStrip::kBlankLine);
    MoveTo(inside);
    if (second == '#') {
      SkipComment();
    } else if (second == '{') {
      ReadTag(TokenKind::kVariableBegin, TokenKind::kVariableEnd);
    } else if (const size_t raw = MatchRawBegin(); raw != 0) {
      MoveTo(raw);
      ReadRaw();
    } else {
      ReadTag(TokenKind::kBlockBegin, TokenKind::kBlockEnd);
    }
  }

  enum class LeftStrip { kNever, kBlankLine };

  /// The text from here to `end`, less what the tag's sign or lstrip_blocks takes off its end.
  void AddData(size_t end, char sign, LeftStrip left_strip) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = StripRight(text);
    } else if (sign != '+' && left_strip == LeftStrip::kBlankLine) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_start > 0 || line_starting_) && SkipSpace(text, line_start) == text.size()) {
        text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) Add(TokenKind::kData, std::string(text));
  }

  /// Behind a closing tag that starts at `close` and is `length` long with its sign.
  size_t BehindClose(size_t close, size_t length, char sign) const {
    const size_t end = close + length;
    if (sign == '-') return SkipSpace(source_, end);
    if (sign != '+' && end < source_.size() && source_[end] == '\n') return end + 1;
    return end;
  }

  void SkipComment() {
    const size_t close = source_.find("#}", at_);
    if (close == std::string::npos) Fail("a comment without its end '#}}'");
    const char sign = close > at_ ? source_[close - 1] : '\0';
    MoveTo(BehindClose(close, 2, sign));
  }

  /// Behind "raw %}" or "raw -%}" if that is what stands here, else 0.
  size_t MatchRawBegin() const {
    size_t at = SkipSpace(source_, at_);
    if (!std::string_view(source_).substr(at).starts_with("raw")) return 0;
    at = SkipSpace(source_, at + 3);
    const std::string_view close = std::string_view(source_).substr(at);
    if (close.starts_with("-%}")) return SkipSpace(source_, at + 3);
    return close.starts_with("%}") ? at + 2 : 0;
  }

  void ReadRaw() {
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      size_t at = SkipSpace(source_, tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      if (!std::string_view(source_).substr(at).starts_with("endraw")) continue;
      at = SkipSpace(source_, at + 6);
      const char end_sign = at < source_.size() ? source_[at] : '\0';
      const size_t close = at + (end_sign == '-' || end_sign == '+' ? 1 : 0);
      if (!std::string_view(source_).substr(close).starts_with("%}")) continue;
      AddData(tag, sign, LeftStrip::kBlankLine);
      MoveTo(BehindClose(close, 2, end_sign));
      return;
    }
    Fail("a raw block without its end");
  }

  void ReadTag(TokenKind begin, TokenKind end) {
    Add(begin);
    while (at_ < source_.size()) {
      if (brackets_.empty() && ReadTagEnd(end)) return;
      ReadTagToken();
    }
    Fail("a tag without its end '{}'", end == TokenKind::kBlockEnd ? "%}" : "}}");
  }

  bool ReadTagEnd(TokenKind end) {
    const std::string_view close = end == TokenKind::kBlockEnd ? "%}" : "}}";
    const char sign = source_[at_];
    const bool has_sign = sign == '-' || (sign == '+' && end == TokenKind::kBlockEnd);
    if (!rest().substr(has_sign ? 1 : 0).starts_with(close)) return false;
    Add(end);
    const size_t close_at = at_ + (has_sign ? 1 : 0);
    // trim_blocks is about blocks: a newline after a variable stays.
    const bool plain_variable = end == TokenKind::kVariableEnd && !has_sign;
    MoveTo(plain_variable ? close_at + 2 : BehindClose(close_at, 2, has_sign ? sign : '\0'));
    return true;
  }

  void ReadTagToken() {
    const char c = source_[at_];
    if (const size_t behind = SkipSpace(source_, at_); behind != at_) {
      MoveTo(behind);
    } else if (IsDigit(c)) {
      ReadNumber();
    } else if (IsNameStart(c)) {
      size_t end = at_;
      while (end < source_.size() && IsNameCharacter(source_[end])) ++end;
      Add(TokenKind::kName, source_.substr(at_, end - at_));
      MoveTo(end);
    } else if (c == '\'' || c == '"') {
      ReadString(c);
    } else {
      ReadOperator();
    }
  }

  /// Digits, single underscores between them allowed, from `at`; returns the end.
  template <typename Accept>
  size_t SkipDigits(size_t at, Accept accept) const {
    while (at < source_.size()) {
      if (accept(source_[at])) {
        ++at;
      } else if (source_[at] == '_' && at + 1 < source_.size() && accept(source_[at + 1])) {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  char CharacterAt(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  /// The end of a float that starts here, or 0.
  size_t MatchFloat() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;
    const size_t whole = SkipDigits(at_, IsDigit);
    size_t end = whole;
    if (CharacterAt(end) == '.' && IsDigit(CharacterAt(end + 1)))
      end = SkipDigits(end + 1, IsDigit);
    if (const char e = CharacterAt(end); e == 'e' || e == 'E') {
      const char sign = CharacterAt(end + 1);
      const size_t digits = end + (sign == '+' || sign == '-' ? 2 : 1);
      if (IsDigit(CharacterAt(digits))) end = SkipDigits(digits, IsDigit);
    }
    return end == whole ? 0 : end;
  }

  void ReadNumber() {
    if (const size_t end = MatchFloat(); end != 0) {
      std::string digits = source_.substr(at_, end - at_);
      std::erase(digits, '_');
      double value = 0;
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (result.ec != std::errc()) Refuse("the number {}: out of a float's range", digits);
      Add(TokenKind::kFloat, digits).floating = value;
      MoveTo(end);
      return;
    }
    int base = 10;
    size_t digits_at = at_;
    size_t end = 0;
    const auto prefix =
        static_cast<char>(std::tolower(static_cast<unsigned char>(CharacterAt(at_ + 1))));
    if (source_[at_] == '0' && (prefix == 'b' || prefix == 'o' || prefix == 'x')) {
      base = prefix == 'b' ? 2 : (prefix == 'o' ? 8 : 16);
      digits_at = at_ + 2;
      end = SkipDigits(digits_at, [base](char c) {
        if (base == 16) return std::isxdigit(static_cast<unsigned char>(c)) != 0;
        return c >= '0' && c < '0' + base;
      });
      if (end == digits_at) Fail("a number without digits");
    } else if (source_[at_] == '0') {
      end = SkipDigits(at_, [](char c) { return c == '0'; });
    } else {
      end = SkipDigits(at_, IsDigit);
    }
    std::string digits = source_.substr(digits_at, end - digits_at);
    std::erase(digits, '_');
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (result.ec != std::errc()) Refuse("the number {}: out of 64 bits", digits.substr(0, 40));
    Add(TokenKind::kInteger, digits).integer = value;
    MoveTo(end);
  }

  void ReadString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Fail("a string without its end");
    Add(TokenKind::kString,
        UnescapeString(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    MoveTo(end + 1);
  }

  void ReadOperator() {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* op = std::find_if(kOperators.begin(), kOperators.end(),
                                  [&](std::string_view text) { return LooksAt(text); });
    if (op == kOperators.end()) {
      Fail("an unexpected character U+{:04X}", static_cast<uint32_t>(ReadCodePoint(source_, at_)));
    }
    Balance(*op);
    Add(TokenKind::kOperator, std::string(*op));
    MoveTo(at_ + op->size());
  }

  void Balance(std::string_view op) {
    if (op == "(") brackets_.push_back(')');
    if (op == "[") brackets_.push_back(']');
    if (op == "{") brackets_.push_back('}');
    if (op != ")" && op != "]" && op != "}") return;
    if (brackets_.empty()) Fail("an unexpected '{}'", op);
    if (brackets_.back() != op[0]) Fail("a '{}' where '{}' is expected", op, brackets_.back());
    brackets_.pop_back();
  }

  std::string source_;
  size_t at_ = 0;
  int& line_;
  bool line_starting_ = true;
  std::string brackets_;  ///< The closing brackets that are awaited.
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source, int& line) {
  return Lexer(NormalizeNewlines(source), line).Run();
}

}  // namespace decant::jinja
