#include "jinja/expression_parser.h"

#include <algorithm>
#include <optional>
#include <string>

#include "jinja/builtins.h"
#include "jinja/depth_guard.h"
#include "jinja/failure.h"
#include "jinja/parser.h"

namespace decant::jinja {

namespace {

int DepthOfExpression(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->depth;
}

int DepthOfExpressions(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& expression : expressions) {
    depth = std::max(depth, DepthOfExpression(expression));
  }
  return depth;
}

int DepthOfArguments(const ArgumentExpressions& arguments) {
  int depth = std::max({DepthOfExpressions(arguments.positional),
                        DepthOfExpression(arguments.more_positional),
                        DepthOfExpression(arguments.more_named)});
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value->depth);
  return depth;
}

void CheckExpressionDepth(int depth) {
  if (depth > kMaxExpressionDepth) {
    FailLimit("expressions nested more than {} deep", kMaxExpressionDepth);
  }
}

/// `inner_depth`: the depth of the deepest expression inside.
template <typename Node>
ExpressionPtr Make(int line, int inner_depth, Node node) {
  CheckExpressionDepth(inner_depth + 1);
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->depth = inner_depth + 1;
  expression->node = std::move(node);
  return expression;
}

struct ComparisonName {
  std::string_view text;
  ComparisonOperator op;
};
constexpr ComparisonName kComparisons[] = {
    {"==", ComparisonOperator::kEqual},  {"!=", ComparisonOperator::kNotEqual},
    {"<", ComparisonOperator::kLess},    {"<=", ComparisonOperator::kLessEqual},
    {">", ComparisonOperator::kGreater}, {">=", ComparisonOperator::kGreaterEqual},
};

std::optional<ComparisonOperator> TakeComparisonOperator(TokenStream& tokens) {
  for (const ComparisonName& comparison : kComparisons) {
    if (tokens.SkipOperator(comparison.text)) return comparison.op;
  }
  if (tokens.SkipName("in")) return ComparisonOperator::kIn;
  if (tokens.at_name("not") && tokens.ahead().IsName("in")) {
    tokens.Take();
    tokens.Take();
    return ComparisonOperator::kNotIn;
  }
  return std::nullopt;
}

ExpressionPtr MakeBinary(int line, BinaryOperator op, ExpressionPtr left, ExpressionPtr right) {
  const int depth = std::max(left->depth, right->depth);
  return Make(line, depth, Binary{op, std::move(left), std::move(right)});
}

/// The name of a filter, test or method that is written in the template as a string, or null.
const std::string* LiteralText(const ArgumentExpressions& arguments, size_t index) {
  if (index >= arguments.positional.size()) return nullptr;
  const auto* literal = std::get_if<Literal>(&arguments.positional[index]->node);
  if (literal == nullptr || !literal->value.is(Value::Kind::kText)) return nullptr;
  return &literal->value.text().bytes;
}

/// map, select and the like name another filter or test: one that does not exist is found now.
void CheckNamedBuiltin(std::string_view filter, const ArgumentExpressions& arguments) {
  if (filter == "map") {
    const std::string* name = LiteralText(arguments, 0);
    if (name != nullptr && FindFilter(*name) == nullptr) Refuse("the filter '{}'", *name);
    return;
  }
  const bool by_value = filter == "select" || filter == "reject";
  const bool by_attribute = filter == "selectattr" || filter == "rejectattr";
  if (!by_value && !by_attribute) return;
  const std::string* name = LiteralText(arguments, by_value ? 0 : 1);
  if (name != nullptr && FindTest(*name) == nullptr) Refuse("the test '{}'", *name);
}

}  // namespace

ExpressionPtr ExpressionParser::Parse() { return ParseConditional(); }

ExpressionPtr ExpressionParser::ParseTuple() {
  return ParseTuple(WithConditional::kYes, Parentheses::kNone);
}

ExpressionPtr ExpressionParser::ParseTupleWithoutConditional() {
  return ParseTuple(WithConditional::kNo, Parentheses::kNone);
}

ExpressionPtr ExpressionParser::MakeCapturedText() {
  return Make(tokens_.line(), 0, CapturedText{});
}

bool ExpressionParser::AtTupleEnd() const {
  return tokens_.at(TokenKind::kVariableEnd) || tokens_.at(TokenKind::kBlockEnd) ||
         tokens_.at_operator(")");
}

ExpressionPtr ExpressionParser::ParseTuple(WithConditional conditional, Parentheses parentheses) {
  const int line = tokens_.line();
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) tokens_.ExpectOperator(",");
    if (AtTupleEnd()) break;
    items.push_back(conditional == WithConditional::kYes ? ParseConditional() : ParseOr());
    if (!tokens_.at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && parentheses == Parentheses::kNone) tokens_.FailExpected("an expression");
  const int depth = DepthOfExpressions(items);
  return Make(line, depth, SequenceDisplay{SequenceKind::kTuple, std::move(items)});
}

ExpressionPtr ExpressionParser::ParseConditional() {
  const DepthGuard guard(depth_, kMaxExpressionDepth);
  const int line = tokens_.line();
  ExpressionPtr then = ParseOr();
  while (tokens_.SkipName("if")) {
    ExpressionPtr condition = ParseOr();
    ExpressionPtr otherwise;
    if (tokens_.SkipName("else")) otherwise = ParseConditional();
    const int depth = std::max({then->depth, condition->depth, DepthOfExpression(otherwise)});
    then =
        Make(line, depth, Conditional{std::move(condition), std::move(then), std::move(otherwise)});
  }
  return then;
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  while (tokens_.at_name("or")) {
    const int line = tokens_.Take().line;
    ExpressionPtr right = ParseAnd();
    const int depth = std::max(left->depth, right->depth);
    left = Make(line, depth, Logical{LogicalOperator::kOr, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (tokens_.at_name("and")) {
    const int line = tokens_.Take().line;
    ExpressionPtr right = ParseNot();
    const int depth = std::max(left->depth, right->depth);
    left = Make(line, depth, Logical{LogicalOperator::kAnd, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!tokens_.at_name("not")) return ParseComparison();
  const DepthGuard guard(depth_, kMaxExpressionDepth);
  const int line = tokens_.Take().line;
  ExpressionPtr operand = ParseNot();
  const int depth = operand->depth;
  return Make(line, depth, Unary{UnaryOperator::kNot, std::move(operand)});
}

ExpressionPtr ExpressionParser::ParseComparison() {
  const int line = tokens_.line();
  ExpressionPtr first = ParseSum();
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
  int depth = first->depth;
  while (const std::optional<ComparisonOperator> op = TakeComparisonOperator(tokens_)) {
    rest.emplace_back(*op, ParseSum());
    depth = std::max(depth, rest.back().second->depth);
  }
  if (rest.empty()) return first;
  return Make(line, depth, Comparison{std::move(first), std::move(rest)});
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr left = ParseConcatenation();
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    const Token op = tokens_.Take();
    left = MakeBinary(op.line, op.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract,
                      std::move(left), ParseConcatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const int line = tokens_.line();
  std::vector<ExpressionPtr> parts;
  parts.push_back(ParseProduct());
  while (tokens_.SkipOperator("~")) parts.push_back(ParseProduct());
  if (parts.size() == 1) return std::move(parts.front());
  const int depth = DepthOfExpressions(parts);
  return Make(line, depth, Concatenation{std::move(parts)});
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr left = ParsePower();
  while (tokens_.at_operator("*") || tokens_.at_operator("/") || tokens_.at_operator("//") ||
         tokens_.at_operator("%")) {
    const Token op = tokens_.Take();
    BinaryOperator kind = BinaryOperator::kMultiply;
    if (op.text == "/") kind = BinaryOperator::kDivide;
    if (op.text == "//") kind = BinaryOperator::kFloorDivide;
    if (op.text == "%") kind = BinaryOperator::kModulo;
    left = MakeBinary(op.line, kind, std::move(left), ParsePower());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr left = ParseUnary(WithFilters::kYes);
  while (tokens_.at_operator("**")) {
    const int line = tokens_.Take().line;
    left = MakeBinary(line, BinaryOperator::kPower, std::move(left), ParseUnary(WithFilters::kYes));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseUnary(WithFilters filters) {
  const DepthGuard guard(depth_, kMaxExpressionDepth);
  ExpressionPtr value;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Token op = tokens_.Take();
    ExpressionPtr operand = ParseUnary(WithFilters::kNo);
    const int depth = operand->depth;
    value = Make(
        op.line, depth,
        Unary{op.text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus, std::move(operand)});
  } else {
    value = ParsePrimary();
  }
  value = ParsePostfix(std::move(value));
  return filters == WithFilters::kYes ? ParseFiltersAndTests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const int line = tokens_.line();
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text = tokens_.Take().text;
      while (tokens_.at(TokenKind::kString)) text += tokens_.Take().text;
      return Make(line, 0, Literal{Value(std::move(text))});
    }
    case TokenKind::kInteger:
      return Make(line, 0, Literal{Value(tokens_.Take().integer)});
    case TokenKind::kFloat:
      return Make(line, 0, Literal{Value(tokens_.Take().floating)});
    default:
      break;
  }
  if (tokens_.at_operator("[")) return ParseList();
  if (tokens_.at_operator("{")) return ParseDict();
  if (!tokens_.SkipOperator("(")) tokens_.FailExpected("an expression");
  ExpressionPtr inner = ParseTuple(WithConditional::kYes, Parentheses::kExplicit);
  tokens_.ExpectOperator(")");
  return inner;
}

ExpressionPtr ExpressionParser::ParseName() {
  const Token token = tokens_.Take();
  if (token.text == "true" || token.text == "True") {
    return Make(token.line, 0, Literal{Value(true)});
  }
  if (token.text == "false" || token.text == "False") {
    return Make(token.line, 0, Literal{Value(false)});
  }
  if (token.text == "none" || token.text == "None") {
    return Make(token.line, 0, Literal{Value(None{})});
  }
  return Make(token.line, 0, NameLookup{names_.Intern(token.text)});
}

ExpressionPtr ExpressionParser::ParseList() {
  const int line = tokens_.Take().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_.at_operator("]")) {
    if (!items.empty()) tokens_.ExpectOperator(",");
    if (tokens_.at_operator("]")) break;
    items.push_back(Parse());
  }
  tokens_.ExpectOperator("]");
  const int depth = DepthOfExpressions(items);
  return Make(line, depth, SequenceDisplay{SequenceKind::kList, std::move(items)});
}

ExpressionPtr ExpressionParser::ParseDict() {
  const int line = tokens_.Take().line;
  DictDisplay dict;
  int depth = 0;
  while (!tokens_.at_operator("}")) {
    if (!dict.entries.empty()) tokens_.ExpectOperator(",");
    if (tokens_.at_operator("}")) break;
    ExpressionPtr key = Parse();
    tokens_.ExpectOperator(":");
    ExpressionPtr value = Parse();
    depth = std::max({depth, key->depth, value->depth});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  tokens_.ExpectOperator("}");
  return Make(line, depth, std::move(dict));
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr value) {
  while (true) {
    if (tokens_.at_operator(".")) {
      value = ParseAttribute(std::move(value));
    } else if (tokens_.at_operator("[")) {
      value = ParseSubscript(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = ParseCall(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFiltersAndTests(ExpressionPtr value) {
  while (true) {
    if (tokens_.at_operator("|")) {
      value = ParseFilters(std::move(value), FilterStart::kPipe);
    } else if (tokens_.at_name("is")) {
      value = ParseTest(std::move(value));
    } else if (tokens_.at_operator("(")) {
      value = ParseCall(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::ParseAttribute(ExpressionPtr object) {
  const int line = tokens_.Take().line;
  const int depth = object->depth;
  if (tokens_.at(TokenKind::kInteger)) {
    const Token index = tokens_.Take();
    return Make(line, depth,
                Subscript{std::move(object), Make(index.line, 0, Literal{Value(index.integer)})});
  }
  std::string name = tokens_.TakeName();
  if (name.starts_with("__")) Refuse("the attribute '{}'", name);
  if (tokens_.at_operator("(") && !IsMethodName(name)) Refuse("the method '{}'", name);
  return Make(line, depth, AttributeLookup{std::move(object), std::move(name)});
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const int line = tokens_.Take().line;
  ExpressionPtr start;
  if (!tokens_.at_operator(":")) {
    start = Parse();
    if (tokens_.SkipOperator("]")) {
      const int depth = std::max(object->depth, start->depth);
      return Make(line, depth, Subscript{std::move(object), std::move(start)});
    }
    if (tokens_.at_operator(",")) Refuse("several indices in one subscript");
  }
  tokens_.ExpectOperator(":");
  ExpressionPtr stop;
  ExpressionPtr step;
  if (!tokens_.at_operator(":") && !tokens_.at_operator("]")) stop = Parse();
  if (tokens_.SkipOperator(":") && !tokens_.at_operator("]")) step = Parse();
  if (tokens_.at_operator(",")) Refuse("several indices in one subscript");
  tokens_.ExpectOperator("]");
  const int depth = std::max(
      {object->depth, DepthOfExpression(start), DepthOfExpression(stop), DepthOfExpression(step)});
  return Make(line, depth,
              Slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ArgumentExpressions ExpressionParser::ParseArguments() {
  ArgumentExpressions arguments;
  tokens_.ExpectOperator("(");
  bool needs_comma = false;
  while (!tokens_.at_operator(")")) {
    if (needs_comma) {
      tokens_.ExpectOperator(",");
      if (tokens_.at_operator(")")) break;
    }
    needs_comma = true;
    const bool spread = arguments.more_positional != nullptr;
    if (arguments.more_named != nullptr) Fail("an argument behind '**'");
    if (tokens_.SkipOperator("**")) {
      arguments.more_named = Parse();
      continue;
    }
    if (!spread && tokens_.SkipOperator("*")) {
      arguments.more_positional = Parse();
      continue;
    }
    if (tokens_.at(TokenKind::kName) && tokens_.ahead().IsOperator("=")) {
      std::string name = tokens_.TakeName();
      tokens_.Take();
      arguments.named.emplace_back(std::move(name), Parse());
      continue;
    }
    if (spread || !arguments.named.empty())
      Fail("a positional argument behind a named one or a '*'");
    arguments.positional.push_back(Parse());
  }
  tokens_.ExpectOperator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = tokens_.line();
  ArgumentExpressions arguments = ParseArguments();
  const int depth = std::max(callee->depth, DepthOfArguments(arguments));
  return Make(line, depth, Call{std::move(callee), std::move(arguments)});
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr input, FilterStart start) {
  if (start == FilterStart::kName) input = ParseFilter(std::move(input));
  while (tokens_.SkipOperator("|")) input = ParseFilter(std::move(input));
  return input;
}

std::string ExpressionParser::TakeDottedName() {
  std::string name = tokens_.TakeName();
  while (tokens_.SkipOperator(".")) {
    name.push_back('.');
    name += tokens_.TakeName();
  }
  return name;
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr input) {
  const int line = tokens_.line();
  const std::string name = TakeDottedName();
  const FilterEntry* filter = FindFilter(name);
  if (filter == nullptr) Refuse("the filter '{}'", name);
  ArgumentExpressions arguments;
  if (tokens_.at_operator("(")) arguments = ParseArguments();
  CheckNamedBuiltin(name, arguments);
  const int depth = std::max(input->depth, DepthOfArguments(arguments));
  return Make(line, depth, FilterCall{filter, std::move(input), std::move(arguments)});
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr subject) {
  const int line = tokens_.Take().line;
  const bool negated = tokens_.SkipName("not");
  const std::string name = TakeDottedName();
  const TestEntry* test = FindTest(name);
  if (test == nullptr) Refuse("the test '{}'", name);
  ArgumentExpressions arguments;
  const Token& next = tokens_.current();
  const bool argument_follows =
      (next.kind == TokenKind::kName && next.text != "else" && next.text != "or" &&
       next.text != "and") ||
      next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
      next.kind == TokenKind::kFloat || next.IsOperator("[") || next.IsOperator("{");
  if (tokens_.at_operator("(")) {
    arguments = ParseArguments();
  } else if (argument_follows) {
    if (tokens_.at_name("is")) Fail("several tests with 'is' in a row");
    arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  const int depth = std::max(subject->depth, DepthOfArguments(arguments));
  ExpressionPtr call = Make(line, depth, TestCall{test, std::move(subject), std::move(arguments)});
  if (!negated) return call;
  return Make(line, depth + 1, Unary{UnaryOperator::kNot, std::move(call)});
}

}  // namespace decant::jinja
