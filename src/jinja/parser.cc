#include "jinja/parser.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "jinja/expression_parser.h"
#include "jinja/failure.h"
#include "jinja/name_table.h"
#include "jinja/token_stream.h"

namespace decant::jinja {

namespace {

/// Parses statements; see ExpressionParser for what stands inside them.
class Parser {
 public:
  Parser(std::vector<Token> tokens, int& line)
      : tokens_(std::move(tokens), line), expressions_(tokens_, names_) {}

  Tree Run() {
    Tree tree;
    tree.body = ParseBody({});
    tree.names = std::move(names_).Take();
    return tree;
  }

 private:
  /// Statements up to a tag named in `ends`, at whose name the stream then stands; with no ends, up
  /// to the end of the template.
  Body ParseBody(std::initializer_list<std::string_view> ends) {
    if (++depth_ > kMaxStatementDepth) {
      FailLimit("statements nested more than {} deep", kMaxStatementDepth);
    }
    Body body;
    while (true) {
      const int line = tokens_.line();
      if (tokens_.at(TokenKind::kEnd)) {
        if (ends.size() != 0) Fail("the template ends where '{}' is expected", *(ends.end() - 1));
        break;
      }
      if (tokens_.at(TokenKind::kData)) {
        body.push_back({line, DataOutput{tokens_.Take().text}});
        continue;
      }
      if (tokens_.at(TokenKind::kVariableBegin)) {
        tokens_.Take();
        body.push_back({line, ExpressionOutput{expressions_.ParseTuple()}});
        tokens_.Expect(TokenKind::kVariableEnd);
        continue;
      }
      tokens_.Expect(TokenKind::kBlockBegin);
      if (AtAny(ends)) break;
      body.push_back(ParseStatement(ends));
      tokens_.Expect(TokenKind::kBlockEnd);
    }
    --depth_;
    return body;
  }

  bool AtAny(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (tokens_.at_name(name)) return true;
    }
    return false;
  }

  /// The body of a tag, from behind what stands in the tag up to the name of its end.
  Body ParseTagBody(std::initializer_list<std::string_view> ends) {
    tokens_.SkipOperator(":");
    tokens_.Expect(TokenKind::kBlockEnd);
    return ParseBody(ends);
  }

  /// A body that no break or continue may leave.
  Body ParseClosedBody(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body body = ParseTagBody({end});
    tokens_.ExpectName(end);
    loops_ = loops;
    return body;
  }

  Statement ParseStatement(std::initializer_list<std::string_view> ends) {
    const int line = tokens_.line();
    const std::string tag = tokens_.TakeName();
    if (tag == "if") return {line, ParseIf()};
    if (tag == "for") return {line, ParseFor()};
    if (tag == "set") return ParseSet(line);
    if (tag == "macro") return {line, ParseMacro()};
    if (tag == "call") return {line, ParseCallBlock()};
    if (tag == "filter") return {line, ParseFilterBlock()};
    if (tag == "with") return {line, ParseWith()};
    if (tag == "generation") return {line, ScopedBlock{{}, ParseClosedBody("endgeneration")}};
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) Fail("'{}' outside a loop", tag);
      if (tag == "break") return {line, Break{}};
      return {line, Continue{}};
    }
    if (tag.starts_with("end") || tag == "else" || tag == "elif") {
      if (ends.size() == 0) Fail("an unexpected '{}'", tag);
      Fail("'{}' where '{}' is expected", tag, *(ends.end() - 1));
    }
    Refuse("the tag '{}'", tag);
  }

  If ParseIf() {
    If result;
    while (true) {
      ExpressionPtr condition = expressions_.ParseTupleWithoutConditional();
      result.branches.emplace_back(std::move(condition), ParseTagBody({"elif", "else", "endif"}));
      const std::string next = tokens_.TakeName();
      if (next == "elif") continue;
      if (next == "else") {
        result.otherwise = ParseTagBody({"endif"});
        tokens_.ExpectName("endif");
      }
      return result;
    }
  }

  For ParseFor() {
    For result;
    result.target = ParseTarget();
    tokens_.ExpectName("in");
    result.iterable = expressions_.ParseTupleWithoutConditional();
    if (tokens_.SkipName("if")) result.filter = expressions_.Parse();
    if (tokens_.at_name("recursive")) Refuse("a recursive for");
    result.loop_name = names_.Intern("loop");
    ++loops_;
    result.body = ParseTagBody({"else", "endfor"});
    --loops_;
    if (tokens_.SkipName("else")) result.otherwise = ParseTagBody({"endfor"});
    tokens_.ExpectName("endfor");
    return result;
  }

  Statement ParseSet(int line) {
    Target target = ParseTarget();
    if (tokens_.SkipOperator("=")) return {line, Set{std::move(target), expressions_.ParseTuple()}};
    ExpressionPtr value = expressions_.ParseFilters(expressions_.MakeCapturedText(),
                                                    ExpressionParser::FilterStart::kPipe);
    return {line, SetBlock{std::move(target), std::move(value), ParseClosedBody("endset")}};
  }

  FilterBlock ParseFilterBlock() {
    ExpressionPtr value = expressions_.ParseFilters(expressions_.MakeCapturedText(),
                                                    ExpressionParser::FilterStart::kName);
    return {std::move(value), ParseClosedBody("endfilter")};
  }

  ScopedBlock ParseWith() {
    ScopedBlock result;
    while (!tokens_.at(TokenKind::kBlockEnd)) {
      if (!result.assignments.empty()) tokens_.ExpectOperator(",");
      Target target = ParseTargetItem();
      tokens_.ExpectOperator("=");
      result.assignments.emplace_back(std::move(target), expressions_.Parse());
    }
    result.body = ParseTagBody({"endwith"});
    tokens_.ExpectName("endwith");
    return result;
  }

  Macro ParseMacro() {
    auto definition = std::make_shared<MacroDefinition>();
    definition->name = tokens_.TakeName();
    const NameId name = names_.Intern(definition->name);
    ParseParameters(*definition);
    ParseMacroBody(*definition, "endmacro");
    return {name, std::move(definition)};
  }

  CallBlock ParseCallBlock() {
    auto definition = std::make_shared<MacroDefinition>();
    definition->name = "caller";
    if (tokens_.at_operator("(")) ParseParameters(*definition);
    ExpressionPtr call = expressions_.Parse();
    if (!std::holds_alternative<Call>(call->node)) Fail("a call block without a call");
    ParseMacroBody(*definition, "endcall");
    return {std::move(call), std::move(definition)};
  }

  void ParseParameters(MacroDefinition& definition) {
    tokens_.ExpectOperator("(");
    while (!tokens_.at_operator(")")) {
      if (!definition.parameters.empty()) tokens_.ExpectOperator(",");
      MacroDefinition::Parameter parameter;
      parameter.text = TakeAssignableName();
      if (parameter.text == "caller" || parameter.text == "varargs" || parameter.text == "kwargs") {
        Refuse("a parameter named '{}'", parameter.text);
      }
      for (const MacroDefinition::Parameter& other : definition.parameters) {
        if (other.text == parameter.text) Fail("two parameters named '{}'", parameter.text);
      }
      parameter.name = names_.Intern(parameter.text);
      if (tokens_.SkipOperator("=")) {
        parameter.default_value = expressions_.Parse();
      } else if (!definition.parameters.empty() &&
                 definition.parameters.back().default_value != nullptr) {
        Fail("a parameter without a default behind one with");
      }
      definition.parameters.push_back(std::move(parameter));
    }
    tokens_.ExpectOperator(")");
  }

  void ParseMacroBody(MacroDefinition& definition, std::string_view end) {
    const auto uses = [this](std::string_view name) { return names_.Uses(name); };
    const int64_t varargs = uses("varargs");
    const int64_t kwargs = uses("kwargs");
    const int64_t caller = uses("caller");
    definition.body = ParseClosedBody(end);
    if (uses("varargs") > varargs) definition.varargs = names_.Intern("varargs");
    if (uses("kwargs") > kwargs) definition.kwargs = names_.Intern("kwargs");
    if (uses("caller") > caller) definition.caller = names_.Intern("caller");
  }

  std::string TakeAssignableName() {
    std::string name = tokens_.TakeName();
    for (const std::string_view reserved :
         {"true", "false", "none", "True", "False", "None", "loop"}) {
      if (name == reserved) Fail("'{}' cannot be assigned to", name);
    }
    return name;
  }

  /// One target, or several with commas between: a tuple.
  Target ParseTarget() {
    std::vector<Target> items;
    bool is_tuple = false;
    while (true) {
      items.push_back(ParseTargetItem());
      if (!tokens_.SkipOperator(",")) break;
      is_tuple = true;
      if (!tokens_.at(TokenKind::kName) && !tokens_.at_operator("(")) break;
      if (tokens_.at_name("in")) break;
    }
    if (!is_tuple) return std::move(items.front());
    return {std::move(items)};
  }

  Target ParseTargetItem() {
    if (tokens_.SkipOperator("(")) {
      if (++depth_ > kMaxStatementDepth) FailLimit("targets nested too deeply");
      Target inner = ParseTarget();
      tokens_.ExpectOperator(")");
      --depth_;
      return inner;
    }
    const std::string name = TakeAssignableName();
    if (!tokens_.SkipOperator(".")) return {names_.Intern(name)};
    return {NamespaceTarget{names_.Intern(name), tokens_.TakeName()}};
  }

  NameTable names_;
  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  ///< Loops around this statement that a break may leave.
};

}  // namespace

Tree ParseTokens(std::vector<Token> tokens, int& line) {
  return Parser(std::move(tokens), line).Run();
}

}  // namespace decant::jinja
