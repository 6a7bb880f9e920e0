#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace decant {

/// GPT-2's spelling of bytes: every byte stands for one printable code point below U+0144, so that
/// a vocabulary of byte strings can be stored as text (`bytes_to_unicode` in openai/gpt-2,
/// src/encoder.py). Printable ASCII and the printable part of Latin-1 stand for themselves; the 68
/// other bytes, in order, are U+0100 and up ("Ġ" is the space).
char32_t SymbolOfByte(uint8_t byte);

/// The byte that a code point stands for, if any.
std::optional<uint8_t> ByteOfSymbol(char32_t code_point);

/// The bytes that a token of a byte-level vocabulary stands for. A token with a code point that is
/// no byte symbol stands for its own UTF-8. `spelling` must be well-formed UTF-8.
std::string BytesOfSpelling(std::string_view spelling);

}  // namespace decant
