#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace decant::jinja {

/// The evaluated arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Arena;

/// Local time, for strftime_now().
using Clock = std::function<std::tm()>;

/// What filters, tests, methods and functions may use of the rendering.
struct Context {
  Budget& budget;
  const Clock& clock;
  Arena& arena;
};

using FilterFunction = Value (*)(Context&, const Value& input, const Arguments&);
struct FilterEntry {
  std::string_view name;
  FilterFunction apply;
};

using TestFunction = bool (*)(Context&, const Value& subject, const Arguments&);
struct TestEntry {
  std::string_view name;
  TestFunction apply;
};

using MethodFunction = Value (*)(Context&, const Value& self, const Arguments&);
struct MethodEntry {
  std::string_view name;
  MethodFunction apply;
};

using BuiltinFunction = Value (*)(Context&, const Arguments&);
struct FunctionEntry {
  std::string_view name;
  BuiltinFunction apply;
};

/// The filter, test or global function `name`, or null.
const FilterEntry* FindFilter(std::string_view name);
const TestEntry* FindTest(std::string_view name);
const FunctionEntry* FindFunction(std::string_view name);

/// The method `name` of `self`'s type, or null.
const MethodEntry* FindMethod(const Value& self, std::string_view name);
/// Whether any type has a method `name`.
bool IsMethodName(std::string_view name);
/// Whether `self`'s type has an attribute `name` in Python that this subset does not have.
bool IsRefusedAttribute(const Value& self, std::string_view name);

/// Fails for a name that Hugging Face's namespaces do not take: one that starts with '_'.
void CheckNamespaceName(std::string_view name);

/// The values of `arguments` in the order of `parameters`, null where not given; fails, naming
/// `callee`, for one too many, an unknown name, or a name given twice.
std::vector<const Value*> BindArguments(std::string_view callee, const Arguments& arguments,
                                        const std::vector<std::string_view>& parameters);

/// As BindArguments; fails where one of the first `required` is missing.
std::vector<const Value*> BindArguments(std::string_view callee, const Arguments& arguments,
                                        const std::vector<std::string_view>& parameters,
                                        size_t required);

}  // namespace decant::jinja
