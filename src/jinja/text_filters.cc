#include "jinja/text_filters.h"

#include <string>

#include "jinja/failure.h"
#include "jinja/json.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

/// jinja2's soft_str(): str() of what is not text yet.
std::string SoftText(Context& context, const Value& value, std::string_view filter) {
  if (value.is(Value::Kind::kText)) {
    context.budget.Work(value.text().bytes.size());
    return PlainText(value, filter);
  }
  return ToText(context.budget, value);
}

bool IsGiven(const Value* value) { return value != nullptr && !value->is(Value::Kind::kNone); }

template <typename Map>
Value MapText(Context& context, const Value& input, const Arguments& arguments,
              std::string_view filter, Map map) {
  BindArguments(filter, arguments, {});
  return Value(map(SoftText(context, input, filter)));
}

/// jinja2's title filter: a word begins behind "-", whitespace or an opening bracket.
std::string TitleWords(const std::string& text) {
  std::string out;
  std::string word;
  const auto flush = [&] {
    if (!word.empty()) out += Capitalize(word);
    word.clear();
  };
  for (size_t at = 0; at < text.size(); at += CodePointLength(text[at])) {
    const char32_t c = ReadCodePoint(text, at);
    const std::string_view character = std::string_view(text).substr(at, CodePointLength(text[at]));
    if (IsSpace(c) || std::string_view("-({[<").find(text[at]) != std::string_view::npos) {
      flush();
      out += character;
    } else {
      word += character;
    }
  }
  flush();
  return out;
}

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

JsonStyle ReadJsonStyle(Context& context, const Arguments& arguments) {
  const auto given =
      BindArguments("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  if (given[0] != nullptr && IsTrue(*given[0])) style.characters = JsonStyle::Characters::kAscii;
  if (IsGiven(given[1])) {
    style.layout = JsonStyle::Layout::kIndented;
    style.item_separator.assign(1, ',');
    if (given[1]->is(Value::Kind::kText)) {
      style.indent = PlainText(*given[1], "tojson's indent");
    } else {
      const int64_t width = std::max<int64_t>(ToInteger(*given[1], "tojson's indent"), 0);
      context.budget.Work(static_cast<size_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (IsGiven(given[2])) {
    const Items pair = Iterate(context.budget, *given[2]);
    if (pair.size() != 2) Fail("tojson's separators must be two");
    style.item_separator = PlainText(pair[0], "a separator");
    style.key_separator = PlainText(pair[1], "a separator");
  }
  if (given[3] != nullptr && IsTrue(*given[3])) style.keys = JsonStyle::Keys::kSorted;
  return style;
}

}  // namespace

Value FilterTrim(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("trim", arguments, {"chars"});
  const std::string text = SoftText(context, input, "trim");
  if (!IsGiven(given[0])) return Value(std::string(Strip(text, nullptr, StripSides::kBoth)));
  const std::string& characters = PlainText(*given[0], "trim");
  context.budget.Work(text.size() + characters.size());
  return Value(std::string(Strip(text, &characters, StripSides::kBoth)));
}

Value FilterUpper(Context& context, const Value& input, const Arguments& arguments) {
  return MapText(context, input, arguments, "upper", UpperCase);
}

Value FilterLower(Context& context, const Value& input, const Arguments& arguments) {
  return MapText(context, input, arguments, "lower", LowerCase);
}

Value FilterTitle(Context& context, const Value& input, const Arguments& arguments) {
  return MapText(context, input, arguments, "title", TitleWords);
}

Value FilterCapitalize(Context& context, const Value& input, const Arguments& arguments) {
  return MapText(context, input, arguments, "capitalize", Capitalize);
}

Value FilterReplace(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t count = IsGiven(given[2]) ? ToInteger(*given[2], "replace") : -1;
  return Value(Replace(context.budget, SoftText(context, input, "replace"),
                       SoftText(context, *given[0], "replace"),
                       SoftText(context, *given[1], "replace"), count));
}

Value FilterIndent(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("indent", arguments, {"width", "first", "blank"});
  std::string indent(4, ' ');
  if (given[0] != nullptr && given[0]->is(Value::Kind::kText)) {
    indent = PlainText(*given[0], "indent");
  } else if (given[0] != nullptr) {
    const int64_t width = std::max<int64_t>(ToInteger(*given[0], "indent"), 0);
    context.budget.Work(static_cast<size_t>(width));
    indent.assign(static_cast<size_t>(width), ' ');
  }
  const bool first = given[1] != nullptr && IsTrue(*given[1]);
  const bool blank = given[2] != nullptr && IsTrue(*given[2]);
  // As jinja2 does: so that a text with a line end at its end has an empty last line.
  std::string text = PlainText(input, "indent");
  text.push_back('\n');
  context.budget.Work(text.size());
  std::string out = first ? indent : std::string();
  bool first_line = true;
  for (const std::string_view line : SplitLines(text)) {
    context.budget.Work(line.size() + indent.size() + 1);
    if (!std::exchange(first_line, false)) {
      out.push_back('\n');
      if (blank || !line.empty()) out += indent;
    }
    out += line;
  }
  return Value(std::move(out));
}

Value FilterString(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("string", arguments, {});
  return input.is(Value::Kind::kText) ? input : Value(ToText(context.budget, input));
}

Value FilterSafe(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("safe", arguments, {});
  return Value(ToText(context.budget, input), Markup::kYes);
}

Value FilterEscape(Context& context, const Value& input, const Arguments& arguments) {
  BindArguments("escape", arguments, {});
  if (input.is(Value::Kind::kText) && input.text().markup == Markup::kYes) return input;
  const std::string text = ToText(context.budget, input);
  // An escape takes up to 5 bytes.
  context.budget.Work(text.size() * 5);
  return Value(Escape(text), Markup::kYes);
}

Value FilterToJson(Context& context, const Value& input, const Arguments& arguments) {
  return Value(WriteJson(context.budget, input, ReadJsonStyle(context, arguments)));
}

}  // namespace decant::jinja
