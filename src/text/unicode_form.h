#pragma once

#include <string>
#include <string_view>

namespace decant {

/// A Unicode Normalization Form (UAX #15).
enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// `utf8` (well-formed) in that form. Takes O(n log n) however many combining marks follow each
/// other.
std::string NormalizeUnicode(std::string_view utf8, UnicodeForm form);

/// Whether NormalizeUnicode surely changes nothing, by a quick look at the bytes.
bool IsPlainly(std::string_view utf8, UnicodeForm form);

}  // namespace decant
