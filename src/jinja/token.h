#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace decant::jinja {

enum class TokenKind {
  kData,  ///< Text between tags, whitespace control applied.
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,  ///< The end of the template.
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  ///< The data, the name, the string's value or the operator.
  int64_t integer = 0;
  double floating = 0;

  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool IsOperator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
};

}  // namespace decant::jinja
