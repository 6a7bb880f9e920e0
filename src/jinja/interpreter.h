#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/budget.h"
#include "jinja/builtins.h"
#include "jinja/callable.h"
#include "jinja/value.h"

namespace decant::jinja {

/// Expressions, statements and macro calls inside each other while rendering: what keeps the
/// interpreter's recursion within a thread's stack.
inline constexpr int kMaxRenderDepth = 800;

/// One rendering of a template.
class Interpreter {
 public:
  Interpreter(const Tree& tree, const Dict& variables, const RenderLimits& limits,
              const Clock& clock);

  /// The text. Throws Failure.
  std::string Run();

  /// The line that was being evaluated last.
  int line() const { return line_; }

 private:
  using ScopePtr = std::shared_ptr<Scope>;
  enum class Flow { kNormal, kBreak, kContinue };

  // Statements.
  Flow Execute(const Body& body, const ScopePtr& scope);
  Flow Run(const DataOutput& node, const ScopePtr& scope);
  Flow Run(const ExpressionOutput& node, const ScopePtr& scope);
  Flow Run(const If& node, const ScopePtr& scope);
  Flow Run(const For& node, const ScopePtr& scope);
  Flow Run(const Set& node, const ScopePtr& scope);
  Flow Run(const SetBlock& node, const ScopePtr& scope);
  Flow Run(const FilterBlock& node, const ScopePtr& scope);
  Flow Run(const ScopedBlock& node, const ScopePtr& scope);
  Flow Run(const Macro& node, const ScopePtr& scope);
  Flow Run(const CallBlock& node, const ScopePtr& scope);
  Flow Run(const Break& node, const ScopePtr& scope);
  Flow Run(const Continue& node, const ScopePtr& scope);

  void Assign(const Target& target, const Value& value, Scope& scope);
  /// What `body` prints, in a scope of its own; then `value`, whose CapturedText it is.
  Value Filtered(const Body& body, const Expression& value, const ScopePtr& scope);
  std::string Capture(const Body& body, const ScopePtr& scope);
  void Write(const std::string& text);
  /// Prints what a block has made, which as in jinja2 must be text.
  void WriteText(const Value& value, std::string_view block);

  // Expressions.
  Value Evaluate(const Expression& expression, const ScopePtr& scope);
  Value Get(const Literal& node, const ScopePtr& scope);
  Value Get(const NameLookup& node, const ScopePtr& scope);
  Value Get(const SequenceDisplay& node, const ScopePtr& scope);
  Value Get(const DictDisplay& node, const ScopePtr& scope);
  Value Get(const Unary& node, const ScopePtr& scope);
  Value Get(const Binary& node, const ScopePtr& scope);
  Value Get(const Logical& node, const ScopePtr& scope);
  Value Get(const Comparison& node, const ScopePtr& scope);
  Value Get(const Concatenation& node, const ScopePtr& scope);
  Value Get(const Conditional& node, const ScopePtr& scope);
  Value Get(const AttributeLookup& node, const ScopePtr& scope);
  Value Get(const Subscript& node, const ScopePtr& scope);
  Value Get(const Slice& node, const ScopePtr& scope);
  Value Get(const Call& node, const ScopePtr& scope);
  Value Get(const FilterCall& node, const ScopePtr& scope);
  Value Get(const TestCall& node, const ScopePtr& scope);
  Value Get(const CapturedText& node, const ScopePtr& scope);

  Arguments EvaluateArguments(const ArgumentExpressions& arguments, const ScopePtr& scope);
  Value CallWith(const Call& node, Arguments extra, const ScopePtr& scope);
  Value CallValue(const Value& callee, const Arguments& arguments);
  Value CallMacro(const Closure& closure, const Arguments& arguments);

  const Tree& tree_;
  Budget budget_;
  Arena arena_;
  Context context_;
  ScopePtr root_;
  std::string output_;
  std::string* out_ = &output_;  ///< Where statements print: the output or a capture.
  Value captured_;
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace decant::jinja
