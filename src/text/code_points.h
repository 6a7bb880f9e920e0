#pragma once

#include <cstdint>
#include <string_view>

namespace decant {

/// What splitting rules ask about a code point; bits of one byte. Of utf8proc's
/// Unicode version (15.0 in utf8proc 2.8).
enum CodePointClass : uint8_t {
  kLetterClass = 1,       ///< General category L.
  kNumberClass = 2,       ///< General category N.
  kSpaceClass = 4,        ///< White_Space.
  kPunctuationClass = 8,  ///< General category P, or ASCII punctuation (which has some S).
  kWordClass = 16,        ///< Word characters of UTS #18, annex C: \w.
};

/// The classes of a code point, OR-ed; none if it is out of range.
uint8_t ClassesOf(char32_t code_point);

/// The classes of the code point at the front of well-formed `utf8`, which must not be empty.
uint8_t ClassesOfFirst(std::string_view utf8);

/// The classes of the last code point of well-formed `utf8`, which must not be empty.
uint8_t ClassesOfLast(std::string_view utf8);

/// Bytes of the code point that a byte of well-formed UTF-8 leads.
inline size_t LengthOfLead(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  if (byte < 0xC0) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

/// Bytes of the last code point of well-formed `utf8`, which must not be empty.
inline size_t LengthOfLast(std::string_view utf8) {
  size_t length = 1;
  while ((static_cast<uint8_t>(utf8[utf8.size() - length]) & 0xC0U) == 0x80U) ++length;
  return length;
}

}  // namespace decant
