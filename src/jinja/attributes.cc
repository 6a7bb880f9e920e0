#include "jinja/attributes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "jinja/callable.h"
#include "jinja/failure.h"
#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

Value Missing(Context& context, const Value& object, std::string_view name) {
  context.budget.Work(name.size());
  return MakeUndefined(fmt::format("a {} has no '{}'", TypeName(object), name));
}

/// What Python's getattr() finds: a method, an attribute of a namespace or of a loop.
std::optional<Value> OwnAttribute(Context& context, const Value& object, std::string_view name) {
  if (object.is(Value::Kind::kNamespace)) {
    const Value* found = object.space().attributes.FindText(name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (object.is(Value::Kind::kLoop)) {
    if (std::optional<Value> found = object.loop().Attribute(name)) return found;
  }
  if (const MethodEntry* method = FindMethod(object, name)) {
    context.budget.Work(sizeof(Callable));
    return context.arena.Add({BoundMethod{method, object}});
  }
  if (IsRefusedAttribute(object, name)) {
    Refuse("the attribute '{}' of a {}", name, TypeName(object));
  }
  return std::nullopt;
}

bool IsIndexable(const Value& object) {
  if (!object.is(Value::Kind::kSequence)) return false;
  const SequenceKind kind = object.sequence().kind();
  return kind == SequenceKind::kList || kind == SequenceKind::kTuple ||
         kind == SequenceKind::kRange;
}

/// What Python's object[index] finds.
std::optional<Value> OwnItem(Context& context, const Value& object, const Value& index) {
  if (object.is(Value::Kind::kDict)) {
    const Value* found = object.dict().Find(index);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!IsInteger(index)) return std::nullopt;
  int64_t at = ToInteger(index, "[]");
  if (IsIndexable(object)) {
    const std::vector<Value>& items = object.sequence().items();
    const auto size = static_cast<int64_t>(items.size());
    if (at < 0) at += size;
    if (at < 0 || at >= size) return std::nullopt;
    return items[static_cast<size_t>(at)];
  }
  if (object.is(Value::Kind::kText)) {
    const std::string_view text = PlainText(object, "[]");
    context.budget.Work(text.size());
    if (at < 0) at += static_cast<int64_t>(CountCodePoints(text));
    if (at < 0) return std::nullopt;
    for (size_t byte = 0; byte < text.size(); byte += CodePointLength(text[byte])) {
      if (at-- == 0) return Value(std::string(text.substr(byte, CodePointLength(text[byte]))));
    }
  }
  return std::nullopt;
}

struct SliceBounds {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

std::optional<int64_t> Bound(const Value* value) {
  if (value == nullptr || value->is(Value::Kind::kNone)) return std::nullopt;
  return ToInteger(*value, "a slice");
}

/// Python's slice.indices().
SliceBounds ResolveSlice(int64_t size, const Value* start, const Value* stop, const Value* step) {
  SliceBounds bounds;
  bounds.step = Bound(step).value_or(1);
  if (bounds.step == 0) Fail("a slice's step is zero");
  const bool backwards = bounds.step < 0;
  const int64_t lowest = backwards ? -1 : 0;
  const int64_t highest = backwards ? size - 1 : size;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound.has_value()) return otherwise;
    const int64_t from_start = *bound < 0 ? *bound + size : *bound;
    return std::clamp(from_start, lowest, highest);
  };
  bounds.start = clamp(Bound(start), backwards ? highest : lowest);
  bounds.stop = clamp(Bound(stop), backwards ? lowest : highest);
  return bounds;
}

/// Calls `take(index)` for each index of the slice.
template <typename Take>
void ForEachIndex(const SliceBounds& bounds, Take take) {
  int64_t at = bounds.start;
  while (bounds.step > 0 ? at < bounds.stop : at > bounds.stop) {
    take(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, bounds.step, &at)) return;
  }
}

/// The byte where each character starts, and the end.
std::vector<size_t> CharacterStarts(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); at += CodePointLength(text[at])) starts.push_back(at);
  starts.push_back(text.size());
  return starts;
}

Value SliceText(Context& context, const std::string& text, const Value* start, const Value* stop,
                const Value* step) {
  context.budget.Work(text.size() * sizeof(size_t));
  const std::vector<size_t> starts = CharacterStarts(text);
  const auto size = static_cast<int64_t>(starts.size()) - 1;
  const SliceBounds bounds = ResolveSlice(size, start, stop, step);
  if (bounds.step == 1) {
    if (bounds.stop <= bounds.start) return Value("");
    const size_t first = starts[static_cast<size_t>(bounds.start)];
    return Value(text.substr(first, starts[static_cast<size_t>(bounds.stop)] - first));
  }
  std::string out;
  ForEachIndex(bounds,
               [&](size_t at) { out.append(text, starts[at], starts[at + 1] - starts[at]); });
  return Value(std::move(out));
}

}  // namespace

Value GetAttribute(Context& context, const Value& object, std::string_view name) {
  if (object.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(object));
  if (std::optional<Value> found = OwnAttribute(context, object, name)) return *std::move(found);
  if (object.is(Value::Kind::kDict)) {
    if (const Value* found = object.dict().FindText(name)) return *found;
  }
  return Missing(context, object, name);
}

Value GetItem(Context& context, const Value& object, const Value& index) {
  if (object.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(object));
  if (std::optional<Value> found = OwnItem(context, object, index)) return *std::move(found);
  if (index.is(Value::Kind::kText)) {
    const std::string& name = index.text().bytes;
    if (std::optional<Value> found = OwnAttribute(context, object, name)) return *std::move(found);
    return Missing(context, object, name);
  }
  return Missing(context, object, IsNumber(index) ? ToText(context.budget, index) : "such item");
}

Value GetSlice(Context& context, const Value& object, const Value* start, const Value* stop,
               const Value* step) {
  if (object.is(Value::Kind::kText)) {
    return SliceText(context, PlainText(object, "a slice"), start, stop, step);
  }
  if (!IsIndexable(object)) {
    if (object.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(object));
    Fail("a {} cannot be sliced", TypeName(object));
  }
  const std::vector<Value>& items = object.sequence().items();
  const SliceBounds bounds = ResolveSlice(static_cast<int64_t>(items.size()), start, stop, step);
  std::vector<Value> out;
  ForEachIndex(bounds, [&](size_t at) { out.push_back(items[at]); });
  return MakeCountedList(context.budget, object.sequence().kind(), std::move(out));
}

}  // namespace decant::jinja
