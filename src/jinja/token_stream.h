#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/token.h"

namespace decant::jinja {

/// The tokens of a template under a parser's hands.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens)), line_(line) {
    line_ = current().line;
  }

  const Token& current() const { return tokens_[at_]; }
  /// The token behind the current one.
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return line_; }

  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_name(std::string_view name) const { return current().IsName(name); }
  bool at_operator(std::string_view op) const { return current().IsOperator(op); }

  /// Moves on; returns the token that was current.
  Token Take();
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view op);

  void Expect(TokenKind kind);
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view op);
  /// Any name.
  std::string TakeName();

  /// Fails: the current token is not `wanted`.
  [[noreturn]] void FailExpected(std::string_view wanted) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int& line_;
};

}  // namespace decant::jinja
