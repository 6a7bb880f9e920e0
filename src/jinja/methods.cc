#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jinja/attributes.h"
#include "jinja/builtins.h"
#include "jinja/failure.h"
#include "jinja/operators.h"
#include "jinja/text_methods.h"

namespace decant::jinja {

namespace {

Value DictGet(Context& /*context*/, const Value& self, const Arguments& arguments) {
  const auto given = BindArguments("get", arguments, {"key", "default"}, 1);
  if (!arguments.named.empty()) Fail("get takes no named arguments");
  const Value* found = self.dict().Find(*given[0]);
  if (found != nullptr) return *found;
  return given[1] == nullptr ? Value(None{}) : *given[1];
}

Value DictKeys(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("keys", arguments, {});
  std::vector<Value> keys;
  for (const Dict::Entry& entry : self.dict().entries()) keys.push_back(entry.key);
  return MakeCountedList(context.budget, SequenceKind::kKeys, std::move(keys));
}

Value DictValues(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("values", arguments, {});
  std::vector<Value> values;
  for (const Dict::Entry& entry : self.dict().entries()) values.push_back(entry.value);
  return MakeCountedList(context.budget, SequenceKind::kValues, std::move(values));
}

Value DictItems(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("items", arguments, {});
  std::vector<Value> items;
  for (const Dict::Entry& entry : self.dict().entries()) {
    context.budget.Work(sizeof(Sequence) + 2 * sizeof(Value));
    items.push_back(MakeTuple({entry.key, entry.value}));
  }
  return MakeCountedList(context.budget, SequenceKind::kItems, std::move(items));
}

/// Nothing in a rendering changes a list or a dict: the copy may be the thing itself.
Value Copy(Context& /*context*/, const Value& self, const Arguments& arguments) {
  BindArguments("copy", arguments, {});
  return self;
}

Value ListIndex(Context& context, const Value& self, const Arguments& arguments) {
  const auto given = BindArguments("index", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.sequence().items();
  for (size_t i = 0; i < items.size(); ++i) {
    if (IsEqual(context.budget, items[i], *given[0])) return Value(static_cast<int64_t>(i));
  }
  Fail("index: the value is not in the list");
}

Value ListCount(Context& context, const Value& self, const Arguments& arguments) {
  const auto given = BindArguments("count", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.sequence().items()) {
    if (IsEqual(context.budget, item, *given[0])) ++count;
  }
  return Value(count);
}

/// What jinja2's immutable sandbox says when a template would change a value.
Value RefuseChange(Context& /*context*/, const Value& self, const Arguments& /*arguments*/) {
  Fail("a template may not change a {}", TypeName(self));
}

Value LoopCycle(Context& context, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    Fail("loop.cycle needs values to choose from");
  }
  const int64_t turn = ToInteger(GetAttribute(context, self, "index0"), "loop.cycle");
  return arguments.positional[static_cast<size_t>(turn) % arguments.positional.size()];
}

constexpr MethodEntry kDictMethods[] = {
    {"get", DictGet},          {"keys", DictKeys},      {"values", DictValues},
    {"items", DictItems},      {"copy", Copy},          {"pop", RefuseChange},
    {"update", RefuseChange},  {"clear", RefuseChange}, {"setdefault", RefuseChange},
    {"popitem", RefuseChange},
};
constexpr MethodEntry kListMethods[] = {
    {"index", ListIndex},      {"count", ListCount},     {"copy", Copy},
    {"append", RefuseChange},  {"extend", RefuseChange}, {"insert", RefuseChange},
    {"remove", RefuseChange},  {"pop", RefuseChange},    {"clear", RefuseChange},
    {"reverse", RefuseChange}, {"sort", RefuseChange},
};
constexpr MethodEntry kTupleMethods[] = {{"index", ListIndex}, {"count", ListCount}};
constexpr MethodEntry kLoopMethods[] = {{"cycle", LoopCycle}};

constexpr std::string_view kRefusedOfText[] = {
    "casefold",    "center",     "encode",    "expandtabs",   "format",    "format_map",
    "isalnum",     "isascii",    "isdecimal", "isidentifier", "islower",   "isnumeric",
    "isprintable", "istitle",    "isupper",   "ljust",        "maketrans", "partition",
    "rjust",       "rpartition", "swapcase",  "translate",    "zfill",
};
constexpr std::string_view kRefusedOfDict[] = {"fromkeys"};
constexpr std::string_view kRefusedOfView[] = {"isdisjoint", "mapping", "count", "index", "start",
                                               "stop",       "step",    "send",  "throw", "close"};
constexpr std::string_view kRefusedOfNumber[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes",
};
constexpr std::string_view kRefusedOfLoop[] = {"changed"};
constexpr std::string_view kRefusedOfCallable[] = {
    "name", "arguments", "caller", "catch_kwargs", "catch_varargs", "explicit_caller"};

template <size_t N>
const MethodEntry* FindIn(const MethodEntry (&methods)[N], std::string_view name) {
  const auto* found = std::find_if(std::begin(methods), std::end(methods),
                                   [&](const MethodEntry& entry) { return entry.name == name; });
  return found == std::end(methods) ? nullptr : found;
}

template <size_t N>
bool IsIn(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

const MethodEntry* FindMethod(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Value::Kind::kText:
      return FindTextMethod(name);
    case Value::Kind::kDict:
      return FindIn(kDictMethods, name);
    case Value::Kind::kLoop:
      return FindIn(kLoopMethods, name);
    case Value::Kind::kSequence:
      if (self.sequence().kind() == SequenceKind::kList) return FindIn(kListMethods, name);
      if (self.sequence().kind() == SequenceKind::kTuple) return FindIn(kTupleMethods, name);
      return nullptr;
    default:
      return nullptr;
  }
}

bool IsMethodName(std::string_view name) {
  return FindTextMethod(name) != nullptr || FindIn(kDictMethods, name) != nullptr ||
         FindIn(kListMethods, name) != nullptr || FindIn(kLoopMethods, name) != nullptr;
}

bool IsRefusedAttribute(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Value::Kind::kText:
      return IsIn(kRefusedOfText, name);
    case Value::Kind::kDict:
      return IsIn(kRefusedOfDict, name);
    case Value::Kind::kSequence:
      return self.sequence().kind() != SequenceKind::kList &&
             self.sequence().kind() != SequenceKind::kTuple && IsIn(kRefusedOfView, name);
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kFloat:
      return IsIn(kRefusedOfNumber, name);
    case Value::Kind::kLoop:
      return IsIn(kRefusedOfLoop, name);
    case Value::Kind::kCallable:
      return IsIn(kRefusedOfCallable, name);
    default:
      return false;
  }
}

}  // namespace decant::jinja
