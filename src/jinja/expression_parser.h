#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/name_table.h"
#include "jinja/token_stream.h"

namespace decant::jinja {

/// Parses expressions as jinja2's parser does, whose precedence is, from loose to tight: `if else`,
/// `or`, `and`, `not`, comparisons and `in`, `+ -`, `~`, `* / // %`, `**` (left to right), unary
/// `- +`, and after a value `.name [index] (call)`, `|filter` and `is test`.
class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, NameTable& names) : tokens_(tokens), names_(names) {}

  ExpressionPtr Parse();
  /// An expression, or several with commas between: a tuple.
  ExpressionPtr ParseTuple();
  /// As ParseTuple, without `if else`: what a for iterates over and an if asks.
  ExpressionPtr ParseTupleWithoutConditional();
  /// `|filter` and more of them around `input`; with kName a first filter's name stands here
  /// already.
  enum class FilterStart { kPipe, kName };
  ExpressionPtr ParseFilters(ExpressionPtr input, FilterStart start);
  ExpressionPtr MakeCapturedText();

 private:
  enum class WithConditional { kNo, kYes };
  enum class Parentheses { kNone, kExplicit };

  ExpressionPtr ParseTuple(WithConditional conditional, Parentheses parentheses);
  ExpressionPtr ParseConditional();
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  enum class WithFilters { kNo, kYes };
  ExpressionPtr ParseUnary(WithFilters filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseName();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr value);
  ExpressionPtr ParseFiltersAndTests(ExpressionPtr value);
  ExpressionPtr ParseAttribute(ExpressionPtr object);
  ExpressionPtr ParseSubscript(ExpressionPtr object);
  ExpressionPtr ParseCall(ExpressionPtr callee);
  ExpressionPtr ParseFilter(ExpressionPtr input);
  ExpressionPtr ParseTest(ExpressionPtr subject);
  ArgumentExpressions ParseArguments();
  std::string TakeDottedName();

  bool AtTupleEnd() const;

  TokenStream& tokens_;
  NameTable& names_;
  int depth_ = 0;  ///< Calls of ParseUnary and ParseConditional inside each other.
};

}  // namespace decant::jinja
