#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace decant::jinja {

// Every text of a rendering is well-formed UTF-8: Template::Parse and the makers of variables check
// it once. All functions but IsUtf8 rely on that.

bool IsUtf8(std::string_view bytes);

/// Bytes of the code point that starts with `lead`.
size_t CodePointLength(char lead);

/// The code point at byte `at`.
char32_t ReadCodePoint(std::string_view text, size_t at);

/// Appends the UTF-8 of a scalar value.
void AppendCodePoint(char32_t code_point, std::string& out);

size_t CountCodePoints(std::string_view text);

/// Python's str.isspace() of one character.
bool IsSpace(char32_t code_point);

/// Python's str.isprintable() of one character: what repr() shows as it is.
bool IsPrintable(char32_t code_point);

/// Where Python's str.splitlines() ends a line ("\r\n" counts as one end).
bool IsLineBreak(char32_t code_point);

bool IsLetter(char32_t code_point);
/// Decimal digits of every script.
bool IsDecimal(char32_t code_point);
/// Numbers that are not decimal digits, as superscripts and fractions.
bool IsOtherNumber(char32_t code_point);

/// Python's str.upper(), lower(), capitalize() and title(). The few characters whose mapping is not
/// one character, or depends on its neighbours (U+00DF, U+03A3, ...), are refused.
std::string UpperCase(std::string_view text);
std::string LowerCase(std::string_view text);
std::string Capitalize(std::string_view text);
std::string TitleCase(std::string_view text);

}  // namespace decant::jinja
