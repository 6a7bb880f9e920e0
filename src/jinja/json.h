#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/budget.h"
#include "jinja/value.h"

namespace decant::jinja {

/// The value of a JSON text. Objects become dicts in the text's order, a repeated key keeps its
/// first place and its last value; integers beyond 64 bits become floats. At most kMaxValueDepth /
/// 2 levels deep; the text is well-formed UTF-8 without surrogates. Errors are InvalidArgument.
Expected<Value> ParseJson(std::string_view json);

struct JsonStyle {
  enum class Characters { kUtf8, kAscii };
  Characters characters = Characters::kUtf8;
  enum class Layout { kOneLine, kIndented };
  Layout layout = Layout::kOneLine;
  std::string indent;  ///< Of one level, if indented.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  enum class Keys { kAsGiven, kSorted };
  Keys keys = Keys::kAsGiven;
};

/// Python's json.dumps(). Fails for what JSON does not have.
std::string WriteJson(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace decant::jinja
