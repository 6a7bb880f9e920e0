#include <algorithm>
#include <iterator>

#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/failure.h"
#include "jinja/operators.h"

namespace decant::jinja {

namespace {

using Kind = Value::Kind;

bool IsDefined(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("defined", arguments, {});
  return !subject.is(Kind::kUndefined);
}

bool IsUndefined(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("undefined", arguments, {});
  return subject.is(Kind::kUndefined);
}

template <Kind kind>
bool IsOfKind(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("the test", arguments, {});
  return subject.is(kind);
}

template <bool wanted>
bool IsBool(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("the test", arguments, {});
  return subject.is(Kind::kBool) && subject.boolean() == wanted;
}

bool IsANumber(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("number", arguments, {});
  return IsNumber(subject);
}

/// What has a length and can be indexed. As in jinja2 an undefined value counts.
bool IsSequence(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("sequence", arguments, {});
  if (subject.is(Kind::kSequence)) {
    const SequenceKind kind = subject.sequence().kind();
    return kind == SequenceKind::kList || kind == SequenceKind::kTuple ||
           kind == SequenceKind::kRange;
  }
  return subject.is(Kind::kText) || subject.is(Kind::kDict) || subject.is(Kind::kUndefined);
}

bool IsIterable(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("iterable", arguments, {});
  return subject.is(Kind::kSequence) || subject.is(Kind::kText) || subject.is(Kind::kDict) ||
         subject.is(Kind::kUndefined) || subject.is(Kind::kLoop);
}

bool IsCallable(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  BindArguments("callable", arguments, {});
  // jinja2's loop and undefined values have a __call__.
  return subject.is(Kind::kCallable) || subject.is(Kind::kLoop) || subject.is(Kind::kUndefined);
}

/// Whether `subject` % `divisor` == `remainder`, for any numbers.
bool HasRemainder(Context& context, const Value& subject, const Value& divisor, int64_t remainder) {
  const Value actual = ApplyBinary(context.budget, BinaryOperator::kModulo, subject, divisor);
  return IsEqual(context.budget, actual, Value(remainder));
}

bool IsOdd(Context& context, const Value& subject, const Arguments& arguments) {
  BindArguments("odd", arguments, {});
  return HasRemainder(context, subject, Value(int64_t{2}), 1);
}

bool IsEven(Context& context, const Value& subject, const Arguments& arguments) {
  BindArguments("even", arguments, {});
  return HasRemainder(context, subject, Value(int64_t{2}), 0);
}

bool IsDivisible(Context& context, const Value& subject, const Arguments& arguments) {
  const auto given = BindArguments("divisibleby", arguments, {"num"}, 1);
  return HasRemainder(context, subject, *given[0], 0);
}

template <ComparisonOperator op>
bool IsCompared(Context& context, const Value& subject, const Arguments& arguments) {
  const auto given = BindArguments("the test", arguments, {"other"}, 1);
  return Compare(context.budget, op, subject, *given[0]);
}

/// Python's `is`, for what it says the same of in every Python.
bool IsSame(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  const auto given = BindArguments("sameas", arguments, {"other"}, 1);
  const auto is_single = [](const Value& value) {
    return value.is(Kind::kNone) || value.is(Kind::kBool);
  };
  if (!is_single(subject) && !is_single(*given[0])) {
    Refuse("sameas between values other than true, false and none");
  }
  return subject.IsSameObject(*given[0]);
}

constexpr TestEntry kTests[] = {
    {"defined", IsDefined},
    {"undefined", IsUndefined},
    {"none", IsOfKind<Kind::kNone>},
    {"boolean", IsOfKind<Kind::kBool>},
    {"true", IsBool<true>},
    {"false", IsBool<false>},
    {"integer", IsOfKind<Kind::kInt>},
    {"float", IsOfKind<Kind::kFloat>},
    {"number", IsANumber},
    {"string", IsOfKind<Kind::kText>},
    {"mapping", IsOfKind<Kind::kDict>},
    {"sequence", IsSequence},
    {"iterable", IsIterable},
    {"callable", IsCallable},
    {"odd", IsOdd},
    {"even", IsEven},
    {"divisibleby", IsDivisible},
    {"sameas", IsSame},
    {"in", IsCompared<ComparisonOperator::kIn>},
    {"==", IsCompared<ComparisonOperator::kEqual>},
    {"eq", IsCompared<ComparisonOperator::kEqual>},
    {"equalto", IsCompared<ComparisonOperator::kEqual>},
    {"!=", IsCompared<ComparisonOperator::kNotEqual>},
    {"ne", IsCompared<ComparisonOperator::kNotEqual>},
    {"<", IsCompared<ComparisonOperator::kLess>},
    {"lt", IsCompared<ComparisonOperator::kLess>},
    {"lessthan", IsCompared<ComparisonOperator::kLess>},
    {"<=", IsCompared<ComparisonOperator::kLessEqual>},
    {"le", IsCompared<ComparisonOperator::kLessEqual>},
    {">", IsCompared<ComparisonOperator::kGreater>},
    {"gt", IsCompared<ComparisonOperator::kGreater>},
    {"greaterthan", IsCompared<ComparisonOperator::kGreater>},
    {">=", IsCompared<ComparisonOperator::kGreaterEqual>},
    {"ge", IsCompared<ComparisonOperator::kGreaterEqual>},
};

}  // namespace

const TestEntry* FindTest(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests),
                                   [&](const TestEntry& entry) { return entry.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace decant::jinja
