#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace decant {

/// What stands at the front of a byte string read as UTF-8.
enum class Utf8Kind {
  kValid,       ///< A well-formed code point of `length` bytes.
  kInvalid,     ///< `length` bytes that no continuation can make well-formed.
  kIncomplete,  ///< All `length` remaining bytes begin a code point that more bytes could complete.
};

struct Utf8Unit {
  Utf8Kind kind = Utf8Kind::kInvalid;
  char32_t code_point = 0xFFFD;  ///< The code point if valid, else U+FFFD.
  size_t length = 1;             ///< Bytes, at least 1.
};

/// The first unit of `bytes`, which must not be empty. An ill-formed sequence is cut into maximal
/// subparts (The Unicode Standard 15.0, section 3.9, table 3-7 and "U+FFFD Substitution of Maximal
/// Subparts"), as Python's errors="replace" and Rust's from_utf8_lossy do.
Utf8Unit ReadUtf8(std::string_view bytes);

/// Appends the UTF-8 of `code_point` (a scalar value) to `out`.
void AppendUtf8(char32_t code_point, std::string& out);

/// Appends `bytes` to `out` with U+FFFD for each ill-formed maximal subpart, and stops before a
/// code point that the end of `bytes` cuts short. Returns the number of bytes left over, 0 to 3.
size_t AppendCompleteUtf8(std::string_view bytes, std::string& out);

/// Whether all of `bytes` is well-formed.
bool IsUtf8(std::string_view bytes);

/// `bytes` with U+FFFD for each ill-formed maximal subpart.
std::string RepairUtf8(std::string_view bytes);

}  // namespace decant
