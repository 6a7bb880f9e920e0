#pragma once

#include <string_view>
#include <vector>

#include "jinja/token.h"

namespace decant::jinja {

/// The tokens of a template, the last one kEnd. Whitespace control as jinja2 3.1 does it with
/// trim_blocks and lstrip_blocks: the newline after a block or comment is dropped, and so is blank
/// space before one on its line, unless a `+` says otherwise; a `-` drops all whitespace on its
/// side; one newline at the end of the template is dropped. Sets `line` as it goes, so that a
/// failure's line is known. `source` is well-formed UTF-8.
std::vector<Token> Tokenize(std::string_view source, int& line);

}  // namespace decant::jinja
