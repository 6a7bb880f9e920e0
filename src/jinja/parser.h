#pragma once

#include <cstddef>
#include <vector>

#include "jinja/ast.h"
#include "jinja/token.h"

namespace decant::jinja {

// Limits of a template, so that recursion over its tree is bounded.
inline constexpr size_t kMaxSourceBytes = 512u << 10;
inline constexpr int kMaxExpressionDepth = 100;
inline constexpr int kMaxStatementDepth = 50;
inline constexpr size_t kMaxNames = 1000;

/// The tree of a template. Fails for wrong syntax and for what the subset does not have: unknown
/// tags, filters, tests and methods. Sets `line` as it goes.
Tree ParseTokens(std::vector<Token> tokens, int& line);

}  // namespace decant::jinja
