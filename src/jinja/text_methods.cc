#include "jinja/text_methods.h"

#include <algorithm>
#include <string>

#include "jinja/failure.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

constexpr size_t kNotFound = std::string_view::npos;

/// The str itself; counts going through it once.
const std::string& Self(Context& context, const Value& self, std::string_view method) {
  const std::string& text = PlainText(self, method);
  context.budget.Work(text.size());
  return text;
}

bool IsGiven(const Value* value) { return value != nullptr && !value->is(Value::Kind::kNone); }

/// Python's methods of str mostly take no names.
void RefuseNames(std::string_view method, const Arguments& arguments) {
  if (!arguments.named.empty()) Fail("{} takes no named arguments", method);
}

Value StripSide(Context& context, const Value& self, const Arguments& arguments,
                std::string_view method, StripSides sides) {
  RefuseNames(method, arguments);
  const auto given = BindArguments(method, arguments, {"chars"});
  const std::string& text = Self(context, self, method);
  const std::string* characters = nullptr;
  if (IsGiven(given[0])) {
    characters = &PlainText(*given[0], method);
    context.budget.Work(characters->size() * std::min<size_t>(text.size(), 64));
  }
  return Value(std::string(Strip(text, characters, sides)));
}

Value TextStrip(Context& context, const Value& self, const Arguments& arguments) {
  return StripSide(context, self, arguments, "strip", StripSides::kBoth);
}
Value TextLeftStrip(Context& context, const Value& self, const Arguments& arguments) {
  return StripSide(context, self, arguments, "lstrip", StripSides::kLeft);
}
Value TextRightStrip(Context& context, const Value& self, const Arguments& arguments) {
  return StripSide(context, self, arguments, "rstrip", StripSides::kRight);
}

/// The parts between whitespace, at most `limit` + 1 of them; a negative limit means all.
std::vector<std::string_view> SplitWords(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = Strip(text, nullptr, StripSides::kLeft);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(Strip(text, nullptr, StripSides::kRight));
      return parts;
    }
    size_t end = 0;
    while (end < text.size() && !IsSpace(ReadCodePoint(text, end))) {
      end += CodePointLength(text[end]);
    }
    parts.push_back(text.substr(0, end));
    text = Strip(text.substr(end), nullptr, StripSides::kLeft);
  }
  return parts;
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      int64_t limit) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t found = Find(text, separator, at);
    if (found == kNotFound) break;
    parts.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

/// As SplitAt, from the right.
std::vector<std::string_view> SplitAtRight(std::string_view text, std::string_view separator,
                                           int64_t limit) {
  // The places of the separator as seen from the right, found in the mirror image: linear time.
  const std::string mirrored(text.rbegin(), text.rend());
  const std::string mirrored_separator(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts;
  for (const std::string_view part : SplitAt(mirrored, mirrored_separator, limit)) {
    const auto end = text.size() - static_cast<size_t>(part.data() - mirrored.data());
    parts.push_back(text.substr(end - part.size(), part.size()));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value MakeParts(Context& context, const std::vector<std::string_view>& parts) {
  // A text of its own for each part.
  constexpr size_t kPartBytes = 64;
  context.budget.Work(parts.size() * kPartBytes);
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.emplace_back(std::string(part));
  return MakeCountedList(context.budget, SequenceKind::kList, std::move(items));
}

enum class SplitFrom { kLeft, kRight };

Value Split(Context& context, const Value& self, const Arguments& arguments,
            std::string_view method, SplitFrom from) {
  const auto given = BindArguments(method, arguments, {"sep", "maxsplit"});
  const std::string& text = Self(context, self, method);
  context.budget.Work(text.size());
  const int64_t limit = given[1] == nullptr ? -1 : ToInteger(*given[1], method);
  if (!IsGiven(given[0])) {
    if (from == SplitFrom::kRight && limit >= 0) Refuse("rsplit by whitespace with a limit");
    return MakeParts(context, SplitWords(text, limit));
  }
  const std::string& separator = PlainText(*given[0], method);
  if (separator.empty()) Fail("{} with an empty separator", method);
  return MakeParts(context, from == SplitFrom::kLeft ? SplitAt(text, separator, limit)
                                                     : SplitAtRight(text, separator, limit));
}

Value TextSplit(Context& context, const Value& self, const Arguments& arguments) {
  return Split(context, self, arguments, "split", SplitFrom::kLeft);
}
Value TextRightSplit(Context& context, const Value& self, const Arguments& arguments) {
  return Split(context, self, arguments, "rsplit", SplitFrom::kRight);
}

Value TextSplitLines(Context& context, const Value& self, const Arguments& arguments) {
  const auto given = BindArguments("splitlines", arguments, {"keepends"});
  const bool keep_ends = given[0] != nullptr && ToInteger(*given[0], "splitlines") != 0;
  if (keep_ends) Refuse("splitlines that keeps the ends");
  return MakeParts(context, SplitLines(Self(context, self, "splitlines")));
}

enum class TextEnd { kStart, kEnd };

Value HasEnd(Context& context, const Value& self, const Arguments& arguments,
             std::string_view method, TextEnd end) {
  RefuseNames(method, arguments);
  if (arguments.positional.size() > 1) Refuse("{} of a part of the text", method);
  const auto given = BindArguments(method, arguments, {"prefix"}, 1);
  const std::string& text = PlainText(self, method);
  const auto matches = [&](const Value& value) {
    const std::string& part = PlainText(value, method);
    context.budget.Work(std::min(part.size(), text.size()));
    return end == TextEnd::kStart ? text.starts_with(part) : text.ends_with(part);
  };
  const bool is_tuple =
      given[0]->is(Value::Kind::kSequence) && given[0]->sequence().kind() == SequenceKind::kTuple;
  if (!is_tuple) return Value(matches(*given[0]));
  const std::vector<Value>& choices = given[0]->sequence().items();
  return Value(std::any_of(choices.begin(), choices.end(), matches));
}

Value TextStartsWith(Context& context, const Value& self, const Arguments& arguments) {
  return HasEnd(context, self, arguments, "startswith", TextEnd::kStart);
}
Value TextEndsWith(Context& context, const Value& self, const Arguments& arguments) {
  return HasEnd(context, self, arguments, "endswith", TextEnd::kEnd);
}

Value TextUpper(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("upper", arguments, {});
  return Value(UpperCase(Self(context, self, "upper")));
}
Value TextLower(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("lower", arguments, {});
  return Value(LowerCase(Self(context, self, "lower")));
}
Value TextTitle(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("title", arguments, {});
  return Value(TitleCase(Self(context, self, "title")));
}
Value TextCapitalize(Context& context, const Value& self, const Arguments& arguments) {
  BindArguments("capitalize", arguments, {});
  return Value(Capitalize(Self(context, self, "capitalize")));
}

Value TextReplace(Context& context, const Value& self, const Arguments& arguments) {
  RefuseNames("replace", arguments);
  const auto given = BindArguments("replace", arguments, {"old", "new", "count"}, 2);
  const int64_t count = given[2] == nullptr ? -1 : ToInteger(*given[2], "replace");
  return Value(Replace(context.budget, PlainText(self, "replace"), PlainText(*given[0], "replace"),
                       PlainText(*given[1], "replace"), count));
}

enum class SearchFrom { kLeft, kRight };

/// The character where the only argument stands, or -1.
int64_t Search(Context& context, const Value& self, const Arguments& arguments,
               std::string_view method, SearchFrom from) {
  RefuseNames(method, arguments);
  if (arguments.positional.size() > 1) Refuse("{} in a part of the text", method);
  const auto given = BindArguments(method, arguments, {"sub"}, 1);
  const std::string& text = Self(context, self, method);
  const std::string& needle = PlainText(*given[0], method);
  size_t found = kNotFound;
  if (from == SearchFrom::kLeft) {
    found = Find(text, needle, 0);
  } else {
    // In the mirror image, since Find is linear and rfind is not.
    const std::string mirrored(text.rbegin(), text.rend());
    const std::string mirrored_needle(needle.rbegin(), needle.rend());
    const size_t at = Find(mirrored, mirrored_needle, 0);
    if (at != kNotFound) found = text.size() - at - needle.size();
  }
  if (found == kNotFound) return -1;
  return static_cast<int64_t>(CountCodePoints(std::string_view(text).substr(0, found)));
}

Value TextFind(Context& context, const Value& self, const Arguments& arguments) {
  return Value(Search(context, self, arguments, "find", SearchFrom::kLeft));
}
Value TextRightFind(Context& context, const Value& self, const Arguments& arguments) {
  return Value(Search(context, self, arguments, "rfind", SearchFrom::kRight));
}
Value TextIndex(Context& context, const Value& self, const Arguments& arguments) {
  const int64_t at = Search(context, self, arguments, "index", SearchFrom::kLeft);
  if (at < 0) Fail("index: the text is not there");
  return Value(at);
}
Value TextRightIndex(Context& context, const Value& self, const Arguments& arguments) {
  const int64_t at = Search(context, self, arguments, "rindex", SearchFrom::kRight);
  if (at < 0) Fail("rindex: the text is not there");
  return Value(at);
}

Value TextCount(Context& context, const Value& self, const Arguments& arguments) {
  RefuseNames("count", arguments);
  if (arguments.positional.size() > 1) Refuse("count in a part of the text");
  const auto given = BindArguments("count", arguments, {"sub"}, 1);
  const std::string& text = Self(context, self, "count");
  const std::string& needle = PlainText(*given[0], "count");
  if (needle.empty()) return Value(static_cast<int64_t>(CountCodePoints(text)) + 1);
  int64_t count = 0;
  for (size_t at = Find(text, needle, 0); at != kNotFound; at = Find(text, needle, at)) {
    ++count;
    at += needle.size();
  }
  return Value(count);
}

Value TextJoin(Context& context, const Value& self, const Arguments& arguments) {
  RefuseNames("join", arguments);
  const auto given = BindArguments("join", arguments, {"iterable"}, 1);
  const std::string& separator = PlainText(self, "join");
  std::string out;
  bool first = true;
  for (const Value& item : Iterate(context.budget, *given[0])) {
    const std::string& part = PlainText(item, "join");
    context.budget.Work(part.size() + separator.size());
    if (!std::exchange(first, false)) out += separator;
    out += part;
  }
  return Value(std::move(out));
}

Value RemoveEnd(Context& context, const Value& self, const Arguments& arguments,
                std::string_view method, TextEnd end) {
  RefuseNames(method, arguments);
  const auto given = BindArguments(method, arguments, {"part"}, 1);
  const std::string& text = Self(context, self, method);
  const std::string& part = PlainText(*given[0], method);
  const bool starts = end == TextEnd::kStart;
  if (!(starts ? text.starts_with(part) : text.ends_with(part))) return self;
  return Value(text.substr(starts ? part.size() : 0, text.size() - part.size()));
}

Value TextRemovePrefix(Context& context, const Value& self, const Arguments& arguments) {
  return RemoveEnd(context, self, arguments, "removeprefix", TextEnd::kStart);
}
Value TextRemoveSuffix(Context& context, const Value& self, const Arguments& arguments) {
  return RemoveEnd(context, self, arguments, "removesuffix", TextEnd::kEnd);
}

template <typename Is>
Value IsAll(Context& context, const Value& self, const Arguments& arguments,
            std::string_view method, Is is) {
  BindArguments(method, arguments, {});
  const std::string& text = Self(context, self, method);
  for (size_t at = 0; at < text.size(); at += CodePointLength(text[at])) {
    if (!is(ReadCodePoint(text, at))) return Value(false);
  }
  return Value(!text.empty());
}

Value TextIsSpace(Context& context, const Value& self, const Arguments& arguments) {
  return IsAll(context, self, arguments, "isspace", IsSpace);
}
Value TextIsAlpha(Context& context, const Value& self, const Arguments& arguments) {
  return IsAll(context, self, arguments, "isalpha", IsLetter);
}
Value TextIsDigit(Context& context, const Value& self, const Arguments& arguments) {
  return IsAll(context, self, arguments, "isdigit", [](char32_t c) {
    if (c >= 0x80 && IsOtherNumber(c)) Refuse("isdigit of U+{:04X}", static_cast<uint32_t>(c));
    return IsDecimal(c);
  });
}

constexpr MethodEntry kTextMethods[] = {
    {"strip", TextStrip},
    {"lstrip", TextLeftStrip},
    {"rstrip", TextRightStrip},
    {"split", TextSplit},
    {"rsplit", TextRightSplit},
    {"splitlines", TextSplitLines},
    {"startswith", TextStartsWith},
    {"endswith", TextEndsWith},
    {"upper", TextUpper},
    {"lower", TextLower},
    {"title", TextTitle},
    {"capitalize", TextCapitalize},
    {"replace", TextReplace},
    {"find", TextFind},
    {"rfind", TextRightFind},
    {"index", TextIndex},
    {"rindex", TextRightIndex},
    {"count", TextCount},
    {"join", TextJoin},
    {"removeprefix", TextRemovePrefix},
    {"removesuffix", TextRemoveSuffix},
    {"isspace", TextIsSpace},
    {"isalpha", TextIsAlpha},
    {"isdigit", TextIsDigit},
};

}  // namespace

const MethodEntry* FindTextMethod(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                   [&](const MethodEntry& entry) { return entry.name == name; });
  return found == std::end(kTextMethods) ? nullptr : found;
}

}  // namespace decant::jinja
