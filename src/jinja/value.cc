#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include "jinja/failure.h"
#include "jinja/loop.h"

namespace decant::jinja {

namespace {

constexpr size_t kLinearSearchEntries = 8;

void CheckDepth(int depth) {
  if (depth > kMaxValueDepth) FailLimit("values nested more than {} levels deep", kMaxValueDepth);
}

bool IsNumber(const Value& value) {
  return value.is(Value::Kind::kBool) || value.is(Value::Kind::kInt) ||
         value.is(Value::Kind::kFloat);
}

int64_t IntegerOf(const Value& value) {
  return value.is(Value::Kind::kBool) ? static_cast<int64_t>(value.boolean()) : value.integer();
}

bool IsKey(const Value& value) {
  if (value.is(Value::Kind::kFloat)) return !std::isnan(value.floating());
  return value.is(Value::Kind::kNone) || value.is(Value::Kind::kText) || IsNumber(value) ||
         value.is(Value::Kind::kUndefined);
}

bool LessNumber(const Value& a, const Value& b) {
  const bool a_floats = a.is(Value::Kind::kFloat);
  const bool b_floats = b.is(Value::Kind::kFloat);
  if (!a_floats && !b_floats) return IntegerOf(a) < IntegerOf(b);
  // long double holds every int64_t and every double.
  const auto wide = [](const Value& value) {
    return value.is(Value::Kind::kFloat) ? static_cast<long double>(value.floating())
                                         : static_cast<long double>(IntegerOf(value));
  };
  return wide(a) < wide(b);
}

}  // namespace

bool Value::IsSameObject(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return boolean() == other.boolean();
    case Kind::kText:
      return &text() == &other.text();
    case Kind::kSequence:
      return &sequence() == &other.sequence();
    case Kind::kDict:
      return &dict() == &other.dict();
    case Kind::kNamespace:
      return &space() == &other.space();
    case Kind::kCallable:
      return &callable() == &other.callable();
    case Kind::kLoop:
      return &loop() == &other.loop();
    case Kind::kUndefined:
    case Kind::kInt:
    case Kind::kFloat:
      return false;
  }
  return false;
}

int DepthOf(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kSequence:
      return value.sequence().depth();
    case Value::Kind::kDict:
      return value.dict().depth();
    case Value::Kind::kLoop:
      return value.loop().depth();
    default:
      return 0;
  }
}

Sequence::Sequence(SequenceKind kind, std::vector<Value> items)
    : kind_(kind), items_(std::move(items)) {
  for (const Value& item : items_) depth_ = std::max(depth_, DepthOf(item));
  CheckDepth(++depth_);
}

bool KeyOrder::operator()(const Value& a, const Value& b) const {
  const auto rank = [](const Value& value) {
    if (value.is(Value::Kind::kNone)) return 0;
    if (IsNumber(value)) return 1;
    return value.is(Value::Kind::kText) ? 2 : 3;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (rank(a) == 1) return LessNumber(a, b);
  if (rank(a) != 2) return false;
  return a.text().bytes < b.text().bytes;
}

std::optional<size_t> Dict::IndexOf(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }
  const KeyOrder less;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!less(entries_[i].key, key) && !less(key, entries_[i].key)) return i;
  }
  return std::nullopt;
}

void Dict::Set(Value key, Value value) {
  if (!IsKey(key)) Fail("a dict's key must be a string, a number or none, not {}", TypeName(key));
  const int depth = std::max(depth_, DepthOf(value) + 1);
  CheckDepth(depth);
  depth_ = depth;
  if (const std::optional<size_t> at = IndexOf(key); at.has_value()) {
    entries_[*at].value = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (!index_.empty()) {
    index_.emplace(entries_.back().key, entries_.size() - 1);
  } else if (entries_.size() > kLinearSearchEntries) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].key, i);
  }
}

const Value* Dict::Find(const Value& key) const {
  if (!IsKey(key)) return nullptr;
  const std::optional<size_t> at = IndexOf(key);
  return at.has_value() ? &entries_[*at].value : nullptr;
}

const Value* Dict::FindText(std::string_view key) const {
  if (!index_.empty()) return Find(Value(std::string(key)));
  for (const Entry& entry : entries_) {
    if (entry.key.is(Value::Kind::kText) && entry.key.text().bytes == key) return &entry.value;
  }
  return nullptr;
}

Value MakeSequence(SequenceKind kind, std::vector<Value> items) {
  return Value(std::make_shared<const Sequence>(kind, std::move(items)));
}

Value MakeList(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kList, std::move(items));
}

Value MakeTuple(std::vector<Value> items) {
  return MakeSequence(SequenceKind::kTuple, std::move(items));
}

Value MakeDict(Dict dict) { return Value(std::make_shared<const Dict>(std::move(dict))); }

std::string_view WhyUndefined(const Value& value) {
  const std::shared_ptr<const std::string>& what = value.undefined().what;
  return what == nullptr ? std::string_view("the value is undefined") : *what;
}

Value MakeUndefined(std::string what) {
  return Undefined{std::make_shared<const std::string>(std::move(what))};
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return "undefined";
    case Value::Kind::kNone:
      return "none";
    case Value::Kind::kBool:
      return "bool";
    case Value::Kind::kInt:
      return "int";
    case Value::Kind::kFloat:
      return "float";
    case Value::Kind::kText:
      return "str";
    case Value::Kind::kDict:
      return "dict";
    case Value::Kind::kNamespace:
      return "namespace";
    case Value::Kind::kCallable:
      return "function";
    case Value::Kind::kLoop:
      return "loop";
    case Value::Kind::kSequence:
      break;
  }
  switch (value.sequence().kind()) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
    case SequenceKind::kIterator:
      return "generator";
  }
  return "list";
}

}  // namespace decant::jinja
