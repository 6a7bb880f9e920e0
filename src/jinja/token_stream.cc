#include "jinja/token_stream.h"

#include "jinja/failure.h"

namespace decant::jinja {

namespace {

std::string Describe(TokenKind kind, std::string_view text) {
  constexpr size_t kShown = 40;
  switch (kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kName:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kOperator:
      return fmt::format("'{}'", text.substr(0, kShown));
  }
  return {};
}

}  // namespace

Token TokenStream::Take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  line_ = current().line;
  return token;
}

bool TokenStream::SkipName(std::string_view name) {
  if (!at_name(name)) return false;
  Take();
  return true;
}

bool TokenStream::SkipOperator(std::string_view op) {
  if (!at_operator(op)) return false;
  Take();
  return true;
}

void TokenStream::Expect(TokenKind kind) {
  if (!at(kind)) FailExpected(Describe(kind, {}));
  Take();
}

void TokenStream::ExpectName(std::string_view name) {
  if (!SkipName(name)) FailExpected(fmt::format("'{}'", name));
}

void TokenStream::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) FailExpected(fmt::format("'{}'", op));
}

std::string TokenStream::TakeName() {
  if (!at(TokenKind::kName)) FailExpected("a name");
  return Take().text;
}

void TokenStream::FailExpected(std::string_view wanted) const {
  Fail("{} where {} is expected", Describe(current().kind, current().text), wanted);
}

}  // namespace decant::jinja
