#include "jinja/sequence_filters.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "jinja/attributes.h"
#include "jinja/failure.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

Value MakeIterator(Context& context, std::vector<Value> items) {
  return MakeCountedList(context.budget, SequenceKind::kIterator, std::move(items));
}

enum class Keep { kIfTrue, kIfFalse };

/// Behind the first `skip` arguments: a test's name and its arguments, or nothing, for whether the
/// value is true.
class Condition {
 public:
  Condition(Context& context, const Arguments& arguments, size_t skip) : context_(context) {
    if (arguments.positional.size() <= skip) return;
    const std::string& name = PlainText(arguments.positional[skip], "a test's name");
    test_ = FindTest(name);
    if (test_ == nullptr) Refuse("the test '{}'", name);
    rest_.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                            arguments.positional.end());
    rest_.named = arguments.named;
  }

  bool operator()(const Value& value) const {
    context_.budget.Step();
    return test_ == nullptr ? IsTrue(value) : test_->apply(context_, value, rest_);
  }

 private:
  Context& context_;
  const TestEntry* test_ = nullptr;
  Arguments rest_;
};

Value SelectBy(Context& context, const Value& input, const Arguments& arguments, Keep keep) {
  const Condition condition(context, arguments, 0);
  if (!IsTrue(input)) return MakeIterator(context, {});
  std::vector<Value> out;
  for (const Value& item : Iterate(context.budget, input)) {
    if (condition(item) == (keep == Keep::kIfTrue)) out.push_back(item);
  }
  return MakeIterator(context, std::move(out));
}

Value SelectByAttribute(Context& context, const Value& input, const Arguments& arguments,
                        Keep keep) {
  if (arguments.positional.empty()) Fail("selectattr and rejectattr need an attribute");
  const Condition condition(context, arguments, 1);
  if (!IsTrue(input)) return MakeIterator(context, {});
  std::vector<Value> out;
  for (const Value& item : Iterate(context.budget, input)) {
    const Value attribute = ReadPath(context, item, arguments.positional[0]);
    if (condition(attribute) == (keep == Keep::kIfTrue)) out.push_back(item);
  }
  return MakeIterator(context, std::move(out));
}

Value MapAttribute(Context& context, const Value& input, const Arguments& arguments) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute") {
      attribute = &value;
    } else if (name == "default") {
      if (!value.is(Value::Kind::kNone)) otherwise = &value;
    } else {
      Fail("map has no parameter '{}'", name);
    }
  }
  if (attribute == nullptr) Fail("map needs a filter or an attribute");
  std::vector<Value> out;
  for (const Value& item : Iterate(context.budget, input)) {
    out.push_back(ReadPath(context, item, *attribute, otherwise));
  }
  return MakeIterator(context, std::move(out));
}

}  // namespace

Value ReadPath(Context& context, const Value& item, const Value& path, const Value* otherwise) {
  const auto read = [&](const Value& object, const Value& index) {
    Value found = GetItem(context, object, index);
    return found.is(Value::Kind::kUndefined) && otherwise != nullptr ? *otherwise : found;
  };
  if (IsInteger(path)) return read(item, path);
  std::string_view rest = PlainText(path, "an attribute");
  Value value = item;
  while (true) {
    context.budget.Step();
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto number = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && part.find_first_not_of("0123456789") == part.npos &&
                          number.ec == std::errc();
    value = read(value, is_index ? Value(index) : Value(std::string(part)));
    if (dot == std::string_view::npos) return value;
    rest = rest.substr(dot + 1);
  }
}

Value FilterDefault(Context& /*context*/, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("default", arguments, {"default_value", "boolean"});
  const bool replace_false = given[1] != nullptr && IsTrue(*given[1]);
  const bool missing = input.is(Value::Kind::kUndefined) || (replace_false && !IsTrue(input));
  if (!missing) return input;
  return given[0] == nullptr ? Value("") : *given[0];
}

Value FilterLength(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("length", arguments, {});
  return Value(LengthOf(context.budget, input));
}

Value FilterFirst(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("first", arguments, {});
  const bool is_iterator =
      input.is(Value::Kind::kSequence) && input.sequence().kind() == SequenceKind::kIterator;
  if (is_iterator) {
    const Sequence& sequence = input.sequence();
    const size_t position = sequence.position();
    if (position >= sequence.items().size()) return MakeUndefined("there is no first item");
    sequence.Advance(position + 1);
    return sequence.items()[position];
  }
  const Items items = Iterate(context.budget, input);
  if (items.size() == 0) return MakeUndefined("there is no first item");
  return items[0];
}

Value FilterLast(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("last", arguments, {});
  if (input.is(Value::Kind::kSequence) && input.sequence().kind() == SequenceKind::kIterator) {
    Fail("last of a generator: make a list of it first");
  }
  const Items items = Iterate(context.budget, input);
  if (items.size() == 0) return MakeUndefined("there is no last item");
  return items[items.size() - 1];
}

Value FilterJoin(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("join", arguments, {"d", "attribute"});
  const std::string separator = given[0] == nullptr ? "" : ToText(context.budget, *given[0]);
  const bool by_attribute = given[1] != nullptr && !given[1]->is(Value::Kind::kNone);
  std::string out;
  bool first = true;
  for (const Value& item : Iterate(context.budget, input)) {
    if (!std::exchange(first, false)) {
      context.budget.Work(separator.size());
      out += separator;
    }
    AppendText(context.budget, by_attribute ? ReadPath(context, item, *given[1]) : item, out);
  }
  return Value(std::move(out));
}

Value FilterList(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("list", arguments, {});
  return MakeCountedList(context.budget, SequenceKind::kList,
                         Iterate(context.budget, input).shared()->items());
}

Value FilterItems(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("items", arguments, {});
  if (input.is(Value::Kind::kUndefined)) return MakeIterator(context, {});
  if (!input.is(Value::Kind::kDict)) Fail("items needs a dict, not {}", TypeName(input));
  std::vector<Value> out;
  for (const Dict::Entry& entry : input.dict().entries()) {
    context.budget.Work(sizeof(Sequence) + 2 * sizeof(Value));
    out.push_back(MakeTuple({entry.key, entry.value}));
  }
  return MakeIterator(context, std::move(out));
}

Value FilterMap(Context& context, const Value& input, const Arguments& arguments) {
  if (!IsTrue(input)) return MakeIterator(context, {});
  if (arguments.positional.empty()) return MapAttribute(context, input, arguments);
  const std::string& name = PlainText(arguments.positional[0], "a filter's name");
  const FilterEntry* filter = FindFilter(name);
  if (filter == nullptr) Refuse("the filter '{}'", name);
  // A list of "map" in "map" would recurse as deeply as the template says.
  if (filter->apply == FilterMap) Refuse("map('map')");
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  std::vector<Value> out;
  for (const Value& item : Iterate(context.budget, input)) {
    context.budget.Step();
    out.push_back(filter->apply(context, item, rest));
  }
  return MakeIterator(context, std::move(out));
}

Value FilterSelect(Context& context, const Value& input, const Arguments& arguments) {
  return SelectBy(context, input, arguments, Keep::kIfTrue);
}

Value FilterReject(Context& context, const Value& input, const Arguments& arguments) {
  return SelectBy(context, input, arguments, Keep::kIfFalse);
}

Value FilterSelectAttr(Context& context, const Value& input, const Arguments& arguments) {
  return SelectByAttribute(context, input, arguments, Keep::kIfTrue);
}

Value FilterRejectAttr(Context& context, const Value& input, const Arguments& arguments) {
  return SelectByAttribute(context, input, arguments, Keep::kIfFalse);
}

Value FilterReverse(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("reverse", arguments, {});
  if (input.is(Value::Kind::kText)) {
    const std::vector<Value> characters = Characters(context.budget, PlainText(input, "reverse"));
    std::string out;
    for (size_t i = characters.size(); i > 0; --i) out += characters[i - 1].text().bytes;
    return Value(std::move(out));
  }
  std::vector<Value> items = Iterate(context.budget, input).shared()->items();
  std::reverse(items.begin(), items.end());
  // Python reverses a generator by way of a list.
  const bool makes_list =
      input.is(Value::Kind::kSequence) && input.sequence().kind() == SequenceKind::kIterator;
  return MakeCountedList(context.budget, makes_list ? SequenceKind::kList : SequenceKind::kIterator,
                         std::move(items));
}

Value FilterSum(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("sum", arguments, {"attribute", "start"});
  const bool by_attribute = given[0] != nullptr && !given[0]->is(Value::Kind::kNone);
  Value total = given[1] == nullptr ? Value(int64_t{0}) : *given[1];
  if (total.is(Value::Kind::kText)) Fail("sum of str: use join");
  for (const Value& item : Iterate(context.budget, input)) {
    context.budget.Step();
    total = ApplyBinary(context.budget, BinaryOperator::kAdd, total,
                        by_attribute ? ReadPath(context, item, *given[0]) : item);
  }
  return total;
}

Value FilterAttr(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("attr", arguments, {"name"}, 1);
  const std::string& name = PlainText(*given[0], "attr");
  if (name.starts_with("__")) Refuse("the attribute '{}'", name);
  // Attributes alone: entries of a dict are not found.
  if (input.is(Value::Kind::kDict) && FindMethod(input, name) == nullptr) {
    return MakeUndefined(fmt::format("a dict has no attribute '{}'", name));
  }
  return GetAttribute(context, input, name);
}

}  // namespace decant::jinja
