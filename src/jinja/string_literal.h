#pragma once

#include <string>
#include <string_view>

namespace decant::jinja {

/// The value of what stands between a string literal's quotes: Python's escapes, unknown ones kept
/// as they are. \N{...} and surrogates are refused.
std::string UnescapeString(std::string_view literal);

}  // namespace decant::jinja
