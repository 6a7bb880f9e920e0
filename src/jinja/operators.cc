#include "jinja/operators.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "jinja/failure.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void FailOperands(std::string_view op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(*value));
  }
  Fail("'{}' between {} and {}", op, TypeName(a), TypeName(b));
}

[[noreturn]] void RefuseOverflow(std::string_view op) { Refuse("'{}' beyond 64 bits", op); }

int64_t Integer(const Value& value) {
  return value.is(Value::Kind::kBool) ? static_cast<int64_t>(value.boolean()) : value.integer();
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t PowerOf(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) RefuseOverflow("**");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) RefuseOverflow("**");
  }
  return result;
}

Value IntegerArithmetic(BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOperator::kDivide:
      if (b == 0) Fail("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo:
      if (b == 0) Fail("division by zero");
      // The one quotient that does not fit; its remainder is 0.
      if (b == -1) {
        if (op == BinaryOperator::kModulo) return Value(int64_t{0});
        overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
        break;
      }
      result = FloorDivide(a, b);
      if (op == BinaryOperator::kModulo) result = a - result * b;
      break;
    case BinaryOperator::kPower:
      if (b < 0) {
        if (a == 0) Fail("0 to a negative power");
        return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value(PowerOf(a, b));
  }
  if (overflow) RefuseOverflow(kSymbols[static_cast<size_t>(op)]);
  return Value(result);
}

/// Python's float %: the sign is the divisor's.
double FloatModulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  return remainder == 0 ? std::copysign(0.0, b) : remainder;
}

/// Python's float //, by way of the remainder.
double FloatFloorDivide(double a, double b) {
  const double quotient = (a - FloatModulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value FloatArithmetic(BinaryOperator op, double a, double b) {
  const bool divides = op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide ||
                       op == BinaryOperator::kModulo;
  if (divides && b == 0) Fail("division by zero");
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kDivide:
      return Value(a / b);
    case BinaryOperator::kFloorDivide:
      return Value(FloatFloorDivide(a, b));
    case BinaryOperator::kModulo:
      return Value(FloatModulo(a, b));
    case BinaryOperator::kPower:
      break;
  }
  if (a == 0 && b < 0) Fail("0 to a negative power");
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) Refuse("a complex number");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
    Fail("'**' beyond a float's range");
  return Value(result);
}

bool IsRepeatable(const Value& value) {
  return value.is(Value::Kind::kText) ||
         (value.is(Value::Kind::kSequence) && (value.sequence().kind() == SequenceKind::kList ||
                                               value.sequence().kind() == SequenceKind::kTuple));
}

Value Repeat(Budget& budget, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  const bool is_text = value.is(Value::Kind::kText);
  const size_t unit =
      is_text ? PlainText(value, "'*'").size() : value.sequence().items().size() * sizeof(Value);
  if (unit != 0 && times > std::numeric_limits<size_t>::max() / unit) {
    FailLimit("a repetition of {} times", times);
  }
  budget.Work(unit * times);
  if (unit == 0) return value;
  if (is_text) {
    std::string out;
    out.reserve(unit * times);
    for (size_t i = 0; i < times; ++i) out += value.text().bytes;
    return Value(std::move(out));
  }
  std::vector<Value> items;
  items.reserve(value.sequence().items().size() * times);
  for (size_t i = 0; i < times; ++i) {
    items.insert(items.end(), value.sequence().items().begin(), value.sequence().items().end());
  }
  return MakeSequence(value.sequence().kind(), std::move(items));
}

Value Join(Budget& budget, const Value& a, const Value& b) {
  if (a.is(Value::Kind::kText)) {
    const std::string& left = PlainText(a, "'+'");
    const std::string& right = PlainText(b, "'+'");
    budget.Work(left.size() + right.size());
    return Value(left + right);
  }
  std::vector<Value> items = a.sequence().items();
  items.insert(items.end(), b.sequence().items().begin(), b.sequence().items().end());
  return MakeCountedList(budget, a.sequence().kind(), std::move(items));
}

bool IsEqualSequence(Budget& budget, const Sequence& a, const Sequence& b) {
  if (a.kind() == SequenceKind::kIterator || b.kind() == SequenceKind::kIterator) return false;
  if (a.kind() != b.kind()) return false;
  if (a.kind() != SequenceKind::kList && a.kind() != SequenceKind::kTuple) {
    Refuse("comparing views of dicts or ranges");
  }
  if (a.items().size() != b.items().size()) return false;
  for (size_t i = 0; i < a.items().size(); ++i) {
    if (!IsEqual(budget, a.items()[i], b.items()[i])) return false;
  }
  return true;
}

bool IsEqualDict(Budget& budget, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.Find(entry.key);
    if (other == nullptr || !IsEqual(budget, entry.value, *other)) return false;
  }
  return true;
}

/// -1, 0 or 1; a NaN is 2: neither less, nor equal, nor greater.
int CompareNumbers(const Value& a, const Value& b) {
  if (IsInteger(a) && IsInteger(b)) {
    return Integer(a) < Integer(b) ? -1 : (Integer(a) > Integer(b) ? 1 : 0);
  }
  // long double holds every int64_t and every double.
  const auto wide = [](const Value& value) {
    return value.is(Value::Kind::kFloat) ? static_cast<long double>(value.floating())
                                         : static_cast<long double>(Integer(value));
  };
  if (std::isnan(wide(a)) || std::isnan(wide(b))) return 2;
  return wide(a) < wide(b) ? -1 : (wide(a) > wide(b) ? 1 : 0);
}

/// Fails for what cannot be asked for in a dict.
void CheckKey(const Value& item) {
  const bool hashable = !item.is(Value::Kind::kSequence) && !item.is(Value::Kind::kDict);
  if (!hashable) Fail("'in' a dict needs a key, not {}", TypeName(item));
}

bool IsOrderedSequence(const Value& value) {
  return IsRepeatable(value) && !value.is(Value::Kind::kText);
}

}  // namespace

bool IsInteger(const Value& value) {
  return value.is(Value::Kind::kInt) || value.is(Value::Kind::kBool);
}

bool IsNumber(const Value& value) { return IsInteger(value) || value.is(Value::Kind::kFloat); }

double ToFloat(const Value& value) {
  return value.is(Value::Kind::kFloat) ? value.floating() : static_cast<double>(Integer(value));
}

int64_t ToInteger(const Value& value, std::string_view use) {
  if (value.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(value));
  if (!IsInteger(value)) Fail("{} needs an int, not {}", use, TypeName(value));
  return Integer(value);
}

bool IsTrue(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return false;
    case Value::Kind::kBool:
      return value.boolean();
    case Value::Kind::kInt:
      return value.integer() != 0;
    case Value::Kind::kFloat:
      return value.floating() != 0;
    case Value::Kind::kText:
      return !value.text().bytes.empty();
    case Value::Kind::kSequence:
      return value.sequence().kind() == SequenceKind::kIterator ||
             !value.sequence().items().empty();
    case Value::Kind::kDict:
      return value.dict().size() != 0;
    case Value::Kind::kNamespace:
    case Value::Kind::kCallable:
    case Value::Kind::kLoop:
      return true;
  }
  return false;
}

bool IsEqual(Budget& budget, const Value& a, const Value& b) {
  budget.Step();
  if (IsNumber(a) && IsNumber(b)) return CompareNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.is(Value::Kind::kUndefined) || a.IsSameObject(b)) return true;
  switch (a.kind()) {
    case Value::Kind::kText:
      budget.Work(std::min(a.text().bytes.size(), b.text().bytes.size()));
      return a.text().bytes == b.text().bytes;
    case Value::Kind::kSequence:
      return IsEqualSequence(budget, a.sequence(), b.sequence());
    case Value::Kind::kDict:
      return IsEqualDict(budget, a.dict(), b.dict());
    default:
      return false;
  }
}

bool IsLess(Budget& budget, const Value& a, const Value& b) {
  budget.Step();
  if (IsNumber(a) && IsNumber(b)) return CompareNumbers(a, b) == -1;
  if (a.is(Value::Kind::kText) && b.is(Value::Kind::kText)) {
    budget.Work(std::min(a.text().bytes.size(), b.text().bytes.size()));
    // The order of UTF-8 bytes is the order of code points.
    return a.text().bytes < b.text().bytes;
  }
  if (IsOrderedSequence(a) && IsOrderedSequence(b) && a.sequence().kind() == b.sequence().kind()) {
    const std::vector<Value>& left = a.sequence().items();
    const std::vector<Value>& right = b.sequence().items();
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!IsEqual(budget, left[i], right[i])) return IsLess(budget, left[i], right[i]);
    }
    return left.size() < right.size();
  }
  FailOperands("<", a, b);
}

bool Contains(Budget& budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Value::Kind::kText: {
      if (!item.is(Value::Kind::kText)) Fail("'in' a str needs a str, not {}", TypeName(item));
      budget.Work(container.text().bytes.size());
      return Find(container.text().bytes, item.text().bytes, 0) != std::string_view::npos;
    }
    case Value::Kind::kDict:
      budget.Step();
      CheckKey(item);
      return container.dict().Find(item) != nullptr;
    default: {
      if (container.is(Value::Kind::kSequence) &&
          container.sequence().kind() == SequenceKind::kKeys) {
        CheckKey(item);
      }
      const Items items = Iterate(budget, container);
      for (const Value& candidate : items) {
        if (candidate.IsSameObject(item) || IsEqual(budget, candidate, item)) return true;
      }
      return false;
    }
  }
}

bool Compare(Budget& budget, ComparisonOperator op, const Value& a, const Value& b) {
  // Whether a NaN takes part: then only != holds.
  const bool unordered = IsNumber(a) && IsNumber(b) && CompareNumbers(a, b) == 2;
  switch (op) {
    case ComparisonOperator::kEqual:
      return IsEqual(budget, a, b);
    case ComparisonOperator::kNotEqual:
      return !IsEqual(budget, a, b);
    case ComparisonOperator::kLess:
      return IsLess(budget, a, b);
    case ComparisonOperator::kLessEqual:
      return !unordered && !IsLess(budget, b, a);
    case ComparisonOperator::kGreater:
      return IsLess(budget, b, a);
    case ComparisonOperator::kGreaterEqual:
      return !unordered && !IsLess(budget, a, b);
    case ComparisonOperator::kIn:
      return Contains(budget, b, a);
    case ComparisonOperator::kNotIn:
      return !Contains(budget, b, a);
  }
  return false;
}

Value ApplyUnary(UnaryOperator op, const Value& operand) {
  if (op == UnaryOperator::kNot) return Value(!IsTrue(operand));
  const std::string_view symbol = op == UnaryOperator::kMinus ? "-" : "+";
  if (operand.is(Value::Kind::kFloat)) {
    return op == UnaryOperator::kMinus ? Value(-operand.floating()) : operand;
  }
  const int64_t value = ToInteger(operand, symbol);
  if (op == UnaryOperator::kPlus) return Value(value);
  return IntegerArithmetic(BinaryOperator::kSubtract, 0, value);
}

Value ApplyBinary(Budget& budget, BinaryOperator op, const Value& a, const Value& b) {
  if (IsInteger(a) && IsInteger(b)) return IntegerArithmetic(op, Integer(a), Integer(b));
  if (IsNumber(a) && IsNumber(b)) return FloatArithmetic(op, ToFloat(a), ToFloat(b));
  if (op == BinaryOperator::kAdd && IsRepeatable(a) && a.kind() == b.kind() && IsRepeatable(b) &&
      (a.is(Value::Kind::kText) || a.sequence().kind() == b.sequence().kind())) {
    return Join(budget, a, b);
  }
  if (op == BinaryOperator::kMultiply && IsRepeatable(a) && IsInteger(b)) {
    return Repeat(budget, a, Integer(b));
  }
  if (op == BinaryOperator::kMultiply && IsInteger(a) && IsRepeatable(b)) {
    return Repeat(budget, b, Integer(a));
  }
  if (op == BinaryOperator::kModulo && a.is(Value::Kind::kText)) Refuse("formatting with '%'");
  FailOperands(kSymbols[static_cast<size_t>(op)], a, b);
}

Value MakeCountedList(Budget& budget, SequenceKind kind, std::vector<Value> items) {
  budget.Work(items.size() * sizeof(Value) + sizeof(Sequence));
  return MakeSequence(kind, std::move(items));
}

Items Iterate(Budget& budget, const Value& value) {
  const auto items_of = [](const Value& list) { return Items(list.shared_sequence()); };
  switch (value.kind()) {
    case Value::Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      if (sequence.kind() != SequenceKind::kIterator) return items_of(value);
      const size_t position = sequence.position();
      sequence.Advance(sequence.items().size());
      if (position == 0) return items_of(value);
      const auto rest = sequence.items().begin() + static_cast<std::ptrdiff_t>(position);
      return items_of(MakeCountedList(budget, SequenceKind::kList, {rest, sequence.items().end()}));
    }
    case Value::Kind::kText:
      return items_of(MakeList(Characters(budget, value.text().bytes)));
    case Value::Kind::kDict: {
      std::vector<Value> keys;
      for (const Dict::Entry& entry : value.dict().entries()) keys.push_back(entry.key);
      return items_of(MakeCountedList(budget, SequenceKind::kList, std::move(keys)));
    }
    case Value::Kind::kUndefined:
      return items_of(MakeList({}));
    default:
      Fail("a {} is not iterable", TypeName(value));
  }
}

int64_t LengthOf(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return 0;
    case Value::Kind::kText:
      budget.Work(value.text().bytes.size());
      return static_cast<int64_t>(CountCodePoints(value.text().bytes));
    case Value::Kind::kDict:
      return static_cast<int64_t>(value.dict().size());
    case Value::Kind::kSequence:
      if (value.sequence().kind() == SequenceKind::kIterator) break;
      return static_cast<int64_t>(value.sequence().items().size());
    default:
      break;
  }
  Fail("a {} has no length", TypeName(value));
}

}  // namespace decant::jinja
