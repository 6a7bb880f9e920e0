#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/budget.h"
#include "jinja/value.h"

namespace decant::jinja {

/// Python's bool().
bool IsTrue(const Value& value);

/// Python's ==.
bool IsEqual(Budget& budget, const Value& a, const Value& b);

/// Python's <; fails for types that have no order.
bool IsLess(Budget& budget, const Value& a, const Value& b);

/// Python's `item in container`.
bool Contains(Budget& budget, const Value& container, const Value& item);

bool Compare(Budget& budget, ComparisonOperator op, const Value& a, const Value& b);

Value ApplyUnary(UnaryOperator op, const Value& operand);
Value ApplyBinary(Budget& budget, BinaryOperator op, const Value& a, const Value& b);

/// The values that an iteration goes through; keeps them alive.
class Items {
 public:
  explicit Items(std::shared_ptr<const Sequence> sequence) : sequence_(std::move(sequence)) {}

  auto begin() const { return sequence_->items().begin(); }
  auto end() const { return sequence_->items().end(); }
  size_t size() const { return sequence_->items().size(); }
  const Value& operator[](size_t index) const { return sequence_->items()[index]; }
  const std::shared_ptr<const Sequence>& shared() const { return sequence_; }

 private:
  std::shared_ptr<const Sequence> sequence_;
};

/// What a for over `value` goes through. An iterator is read to its end.
Items Iterate(Budget& budget, const Value& value);

/// Python's len(); fails for what has none.
int64_t LengthOf(Budget& budget, const Value& value);

/// A list that costs what its values take.
Value MakeCountedList(Budget& budget, SequenceKind kind, std::vector<Value> items);

/// The integer of an int or a bool, or fails naming `use`.
int64_t ToInteger(const Value& value, std::string_view use);

bool IsInteger(const Value& value);  ///< An int or a bool.
bool IsNumber(const Value& value);   ///< An int, a bool or a float.
double ToFloat(const Value& value);  ///< Of a number.

}  // namespace decant::jinja
