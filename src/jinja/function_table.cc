#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "jinja/builtins.h"
#include "jinja/callable.h"
#include "jinja/failure.h"
#include "jinja/operators.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

/// jinja2's sandbox allows no longer range.
constexpr int64_t kMaxRange = 100'000;

Value Range(Context& context, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    Fail("range takes one to three ints");
  }
  const int64_t start = given.size() > 1 ? ToInteger(given[0], "range") : 0;
  const int64_t stop = ToInteger(given[given.size() > 1 ? 1 : 0], "range");
  const int64_t step = given.size() > 2 ? ToInteger(given[2], "range") : 1;
  if (step == 0) Fail("range's step is zero");
  std::vector<Value> items;
  int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      FailLimit("a range of more than {} values", kMaxRange);
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return MakeCountedList(context.budget, SequenceKind::kRange, std::move(items));
}

/// The arguments of dict() and namespace(): a dict or pairs, then names.
Dict ReadDict(Context& context, const Arguments& arguments, std::string_view callee) {
  if (arguments.positional.size() > 1) Fail("{} takes at most one unnamed argument", callee);
  Dict dict;
  const auto set = [&](Value key, Value value) {
    context.budget.Work(sizeof(Dict::Entry));
    dict.Set(std::move(key), std::move(value));
  };
  if (!arguments.positional.empty() && arguments.positional[0].is(Value::Kind::kDict)) {
    for (const Dict::Entry& entry : arguments.positional[0].dict().entries()) {
      set(entry.key, entry.value);
    }
  } else if (!arguments.positional.empty()) {
    for (const Value& item : Iterate(context.budget, arguments.positional[0])) {
      const Items pair = Iterate(context.budget, item);
      if (pair.size() != 2) Fail("{} of what is not pairs", callee);
      set(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) set(Value(name), value);
  return dict;
}

Value MakeDictFromArguments(Context& context, const Arguments& arguments) {
  return MakeDict(ReadDict(context, arguments, "dict"));
}

Value MakeNamespace(Context& context, const Arguments& arguments) {
  Dict attributes = ReadDict(context, arguments, "namespace");
  for (const Dict::Entry& entry : attributes.entries()) {
    if (entry.key.is(Value::Kind::kText)) CheckNamespaceName(entry.key.text().bytes);
  }
  context.budget.Work(sizeof(Namespace));
  context.arena.namespaces.push_back({std::move(attributes)});
  return Value(&context.arena.namespaces.back());
}

Value RaiseException(Context& context, const Arguments& arguments) {
  const auto given = BindArguments("raise_exception", arguments, {"message"}, 1);
  throw Failure(InvalidArgument("{}", ToText(context.budget, *given[0])), FailureWords::kTemplate);
}

/// `format` without its zone, of which Python's time here knows none. Refuses what is not a
/// conversion whose text is short and the same on every machine.
std::string CheckTimeFormat(std::string_view format) {
  constexpr std::string_view kConversions = "aAbBcdDeFHIjmMpRSTuUVwWxXyYGhntZz%";
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.push_back(format[i]);
      continue;
    }
    const size_t letter = i + (i + 1 < format.size() && format[i + 1] == '-' ? 2 : 1);
    if (letter >= format.size() || kConversions.find(format[letter]) == std::string_view::npos) {
      Refuse("strftime_now with the format '{}'", format.substr(0, 80));
    }
    if (format[letter] != 'Z' && format[letter] != 'z') out += format.substr(i, letter - i + 1);
    i = letter;
  }
  return out;
}

Value FormatNow(Context& context, const Arguments& arguments) {
  const auto given = BindArguments("strftime_now", arguments, {"format"}, 1);
  const std::string format = CheckTimeFormat(PlainText(*given[0], "strftime_now"));
  // The longest conversion, %c, takes 24 characters in the C locale.
  std::string out(format.size() * 16 + 32, '\0');
  context.budget.Work(out.size());
  const std::tm now = context.clock();
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &now));
  return Value(std::move(out));
}

constexpr FunctionEntry kFunctions[] = {
    {"dict", MakeDictFromArguments},     {"namespace", MakeNamespace},
    {"raise_exception", RaiseException}, {"range", Range},
    {"strftime_now", FormatNow},
};

}  // namespace

void CheckNamespaceName(std::string_view name) {
  if (name.starts_with('_')) Fail("a namespace's attribute may not start with '_', as '{}'", name);
}

const FunctionEntry* FindFunction(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const FunctionEntry& entry) { return entry.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace decant::jinja
