#pragma once

#include <string>
#include <string_view>

namespace decant {

/// `utf8` (well-formed) in Unicode Normalization Form C (UAX #15). Takes O(n log n) however many
/// combining marks follow each other.
std::string NormalizeNfc(std::string_view utf8);

/// Whether NormalizeNfc surely changes nothing, by a quick look: no code point from U+0300 up.
bool IsPlainlyNfc(std::string_view utf8);

}  // namespace decant
