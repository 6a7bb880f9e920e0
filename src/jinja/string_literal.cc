#include "jinja/string_literal.h"

#include <cstddef>

#include "jinja/failure.h"
#include "jinja/unicode.h"

namespace decant::jinja {

namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char32_t ReadHex(std::string_view digits, size_t count) {
  if (digits.size() < count) Fail("a string's escape is cut short");
  char32_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const int digit = HexDigit(digits[i]);
    if (digit < 0) Fail("a string's escape needs {} hexadecimal digits", count);
    value = value * 16 + static_cast<char32_t>(digit);
  }
  if (value > 0x10FFFF) Fail("a string's escape is beyond U+10FFFF");
  if (value >= 0xD800 && value <= 0xDFFF) Refuse("a string with a surrogate");
  return value;
}

/// The character of a one-letter escape, or 0.
char SimpleEscape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return '\0';
  }
}

/// Appends the escape whose letter stands at `at`; returns the position behind it.
size_t AppendEscape(std::string_view literal, size_t at, std::string& out) {
  const char c = literal[at];
  if (const char simple = SimpleEscape(c); simple != '\0') {
    out.push_back(simple);
    return at + 1;
  }
  if (c == '\n') return at + 1;
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t count = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
    AppendCodePoint(ReadHex(literal.substr(at + 1), count), out);
    return at + 1 + count;
  }
  if (c == 'N') Refuse("the escape \\N in a string");
  if (c >= '0' && c <= '7') {
    char32_t value = 0;
    size_t end = at;
    while (end < literal.size() && end < at + 3 && literal[end] >= '0' && literal[end] <= '7') {
      value = value * 8 + static_cast<char32_t>(literal[end++] - '0');
    }
    AppendCodePoint(value, out);
    return end;
  }
  out.push_back('\\');
  return at;
}

}  // namespace

std::string UnescapeString(std::string_view literal) {
  std::string out;
  out.reserve(literal.size());
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] == '\\' && at + 1 < literal.size()) {
      at = AppendEscape(literal, at + 1, out);
    } else {
      out.push_back(literal[at++]);
    }
  }
  return out;
}

}  // namespace decant::jinja
