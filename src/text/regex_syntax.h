#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace decant {

/// A pattern of tokenizer.json, which the Python `tokenizers` library reads with Oniguruma's Ruby
/// syntax (kkos/oniguruma, doc/RE), as a PCRE2 pattern that matches the same; for
/// PCRE2_UTF | PCRE2_MULTILINE and a line end of "\n". What differs is rewritten: \s, \w, \d, \b
/// and POSIX brackets mean Unicode's properties, \h a hexadecimal digit, \v one code point, (?m)
/// what PCRE2 calls (?s). kUnimplemented names a construct that has no such counterpart (sets
/// inside sets, back references, subexpression calls, verbs).
Expected<std::string> PcreFromOniguruma(std::string_view pattern);

/// A pattern that matches `text` itself.
std::string QuoteForPcre(std::string_view text);

}  // namespace decant
