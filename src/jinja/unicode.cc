#include "jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "jinja/failure.h"

namespace decant::jinja {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Characters with a mapping of several characters (The Unicode Standard, SpecialCasing.txt), in
// ranges that may hold others too.
constexpr Range kLongUpperCase[] = {{0x00DF, 0x00DF}, {0x0149, 0x0149}, {0x01F0, 0x01F0},
                                    {0x0390, 0x0390}, {0x03B0, 0x03B0}, {0x0587, 0x0587},
                                    {0x1E96, 0x1E9A}, {0x1F50, 0x1FFC}, {0xFB00, 0xFB17}};
// A capital sigma's lower case depends on the word around it.
constexpr Range kSpecialLowerCase[] = {{0x0130, 0x0130}, {0x03A3, 0x03A3}};

template <size_t N>
void RefuseSpecialCase(const Range (&ranges)[N], char32_t c) {
  for (const Range& range : ranges) {
    if (c >= range.first && c <= range.last) {
      Refuse("changing the case of U+{:04X}", static_cast<uint32_t>(c));
    }
  }
}

char32_t Upper(char32_t c) {
  RefuseSpecialCase(kLongUpperCase, c);
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t Title(char32_t c) {
  RefuseSpecialCase(kLongUpperCase, c);
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

char32_t Lower(char32_t c) {
  RefuseSpecialCase(kSpecialLowerCase, c);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsCased(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

/// `map(code point)` of each character.
template <typename Map>
std::string MapCodePoints(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += CodePointLength(text[at])) {
    AppendCodePoint(map(ReadCodePoint(text, at)), out);
  }
  return out;
}

}  // namespace

bool IsUtf8(std::string_view bytes) {
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  for (size_t at = 0; at < bytes.size();) {
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(data + at, static_cast<utf8proc_ssize_t>(bytes.size() - at), &code_point);
    if (length <= 0) return false;
    at += static_cast<size_t>(length);
  }
  return true;
}

size_t CodePointLength(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

char32_t ReadCodePoint(std::string_view text, size_t at) {
  const size_t length = CodePointLength(text[at]);
  const auto lead = static_cast<unsigned char>(text[at]);
  if (length == 1) return lead;
  char32_t value = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
  }
  return value;
}

void AppendCodePoint(char32_t code_point, std::string& out) {
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
}

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsLetter(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return IsCased(c) || category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }

bool IsOtherNumber(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_NO || category == UTF8PROC_CATEGORY_NL;
}

std::string UpperCase(std::string_view text) { return MapCodePoints(text, Upper); }

std::string LowerCase(std::string_view text) { return MapCodePoints(text, Lower); }

std::string Capitalize(std::string_view text) {
  bool first = true;
  return MapCodePoints(text, [&](char32_t c) {
    const char32_t mapped = first ? Title(c) : Lower(c);
    first = false;
    return mapped;
  });
}

std::string TitleCase(std::string_view text) {
  bool after_cased = false;
  return MapCodePoints(text, [&](char32_t c) {
    const char32_t mapped = after_cased ? Lower(c) : Title(c);
    after_cased = IsCased(c);
    return mapped;
  });
}

}  // namespace decant::jinja
