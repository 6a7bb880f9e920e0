#pragma once

#include <string_view>

namespace decant {

// Files beside this one, put into the program by embed_files.cmake at every build.

/// page.html; its word "@NONCE@" stands where a response's nonce goes.
std::string_view LivePageHtml();

/// openapi.json.
std::string_view OpenApiJson();

}  // namespace decant
