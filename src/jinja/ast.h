#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/value.h"

namespace decant::jinja {

struct FilterEntry;
struct TestEntry;

/// A variable's number: its place in Tree::names.
using NameId = int;

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// Expressions.

struct Literal {
  Value value;
};
struct NameLookup {
  NameId name = 0;
};
struct SequenceDisplay {
  SequenceKind kind = SequenceKind::kList;
  std::vector<ExpressionPtr> items;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op = UnaryOperator::kNot;
  ExpressionPtr operand;
};

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  BinaryOperator op = BinaryOperator::kAdd;
  ExpressionPtr left;
  ExpressionPtr right;
};

enum class LogicalOperator { kAnd, kOr };
struct Logical {
  LogicalOperator op = LogicalOperator::kAnd;
  ExpressionPtr left;
  ExpressionPtr right;
};

enum class ComparisonOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};
/// a < b <= c: true if each pair of neighbours compares so.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};

/// a ~ b ~ c.
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
/// `then if condition else otherwise`; undefined without an else.
struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  ///< May be null.
};
/// object.name
struct AttributeLookup {
  ExpressionPtr object;
  std::string name;
};
/// object[index]
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr index;
};
/// object[start:stop:step], each of which may be null.
struct Slice {
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};

struct ArgumentExpressions {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  ///< Of `*expression`; may be null.
  ExpressionPtr more_named;       ///< Of `**expression`; may be null.
};
struct Call {
  ExpressionPtr callee;
  ArgumentExpressions arguments;
};
struct FilterCall {
  const FilterEntry* filter = nullptr;
  ExpressionPtr input;
  ArgumentExpressions arguments;
};
struct TestCall {
  const TestEntry* test = nullptr;
  ExpressionPtr subject;
  ArgumentExpressions arguments;
};
/// The text of the {% set %} or {% filter %} block whose filters are being applied.
struct CapturedText {};

struct Expression {
  int line = 1;
  int depth = 1;  ///< Levels of expressions inside each other, this one included.
  std::variant<Literal, NameLookup, SequenceDisplay, DictDisplay, Unary, Binary, Logical,
               Comparison, Concatenation, Conditional, AttributeLookup, Subscript, Slice, Call,
               FilterCall, TestCall, CapturedText>
      node;
};

// Statements.

struct Statement;
using Body = std::vector<Statement>;

struct NamespaceTarget {
  NameId space = 0;
  std::string attribute;
};
/// What a value is assigned to: a name, an attribute of a namespace, or a list of targets.
struct Target {
  std::variant<NameId, NamespaceTarget, std::vector<Target>> to;
};

struct DataOutput {
  std::string text;
};
struct ExpressionOutput {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr filter;  ///< May be null.
  Body body;
  Body otherwise;
  NameId loop_name = 0;  ///< Of `loop`.
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr value;  ///< The filters around a CapturedText.
  Body body;
};
struct FilterBlock {
  ExpressionPtr value;  ///< The filters around a CapturedText.
  Body body;
};
/// A body whose assignments stay inside: {% with %} and {% generation %}.
struct ScopedBlock {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
};

/// The parameters and the body of {% macro %} or {% call %}.
struct MacroDefinition {
  struct Parameter {
    NameId name = 0;
    std::string text;
    ExpressionPtr default_value;  ///< May be null.
  };
  std::string name;
  std::vector<Parameter> parameters;
  // Set if the body names them: what arguments beyond the parameters it takes.
  std::optional<NameId> varargs;
  std::optional<NameId> kwargs;
  std::optional<NameId> caller;
  Body body;
};
struct Macro {
  NameId name = 0;
  std::shared_ptr<const MacroDefinition> definition;
};
struct CallBlock {
  ExpressionPtr call;  ///< A Call.
  std::shared_ptr<const MacroDefinition> caller;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 1;
  std::variant<DataOutput, ExpressionOutput, If, For, Set, SetBlock, FilterBlock, ScopedBlock,
               Macro, CallBlock, Break, Continue>
      node;
};

/// A parsed template.
struct Tree {
  std::vector<std::string> names;  ///< Every variable's name, by NameId.
  Body body;
};

}  // namespace decant::jinja
