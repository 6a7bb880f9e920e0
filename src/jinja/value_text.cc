#include "jinja/value_text.h"

#include <cmath>
#include <cstring>

#include "jinja/unicode.h"

namespace decant::jinja {

namespace {

void AppendEscaped(char32_t c, std::string& out) {
  const auto code = static_cast<uint32_t>(c);
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (code <= 0xFF) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code <= 0xFFFF) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

void AppendTextRepr(std::string_view text, std::string& out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.push_back(quote);
  for (size_t at = 0; at < text.size(); at += CodePointLength(text[at])) {
    const char32_t c = ReadCodePoint(text, at);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (IsPrintable(c)) {
      out += text.substr(at, CodePointLength(text[at]));
    } else {
      AppendEscaped(c, out);
    }
  }
  out.push_back(quote);
}

void AppendRepr(Budget& budget, const Value& value, std::string& out);

void AppendItems(Budget& budget, const std::vector<Value>& items, std::string& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(budget, items[i], out);
  }
}

void AppendSequence(Budget& budget, const Sequence& sequence, std::string& out) {
  std::string_view open = "[";
  std::string_view close = "]";
  switch (sequence.kind()) {
    case SequenceKind::kList:
      break;
    case SequenceKind::kTuple:
      open = "(";
      close = sequence.items().size() == 1 ? ",)" : ")";
      break;
    case SequenceKind::kKeys:
      open = "dict_keys([";
      close = "])";
      break;
    case SequenceKind::kValues:
      open = "dict_values([";
      close = "])";
      break;
    case SequenceKind::kItems:
      open = "dict_items([";
      close = "])";
      break;
    case SequenceKind::kRange:
    case SequenceKind::kIterator:
      Refuse("printing a {}: make a list of it first",
             sequence.kind() == SequenceKind::kRange ? "range" : "generator");
  }
  out += open;
  AppendItems(budget, sequence.items(), out);
  out += close;
}

void AppendDict(Budget& budget, const Dict& dict, std::string& out) {
  out.push_back('{');
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!std::exchange(first, false)) out += ", ";
    AppendRepr(budget, entry.key, out);
    out += ": ";
    AppendRepr(budget, entry.value, out);
  }
  out.push_back('}');
}

void AppendRepr(Budget& budget, const Value& value, std::string& out) {
  budget.Step();
  if (value.is(Value::Kind::kText)) {
    if (value.text().markup == Markup::kYes) Refuse("printing a list of escaped text");
    // An escape takes up to 10 bytes.
    budget.Work(value.text().bytes.size() * 10);
    AppendTextRepr(value.text().bytes, out);
  } else if (value.is(Value::Kind::kUndefined)) {
    out += "Undefined";
  } else {
    AppendText(budget, value, out);
  }
}

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void AppendText(Budget& budget, const Value& value, std::string& out) {
  constexpr size_t kSmallText = 32;
  budget.Work(value.is(Value::Kind::kText) ? value.text().bytes.size() : kSmallText);
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return;
    case Value::Kind::kNone:
      out += "None";
      return;
    case Value::Kind::kBool:
      out += value.boolean() ? "True" : "False";
      return;
    case Value::Kind::kInt:
      out += fmt::format("{}", value.integer());
      return;
    case Value::Kind::kFloat:
      out += FloatText(value.floating());
      return;
    case Value::Kind::kText:
      out += value.text().bytes;
      return;
    case Value::Kind::kSequence:
      AppendSequence(budget, value.sequence(), out);
      return;
    case Value::Kind::kDict:
      AppendDict(budget, value.dict(), out);
      return;
    case Value::Kind::kNamespace:
    case Value::Kind::kCallable:
    case Value::Kind::kLoop:
      Refuse("printing a {}", TypeName(value));
  }
}

std::string ToText(Budget& budget, const Value& value) {
  std::string out;
  AppendText(budget, value, out);
  return out;
}

const std::string& PlainText(const Value& value, std::string_view use) {
  if (value.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(value));
  if (!value.is(Value::Kind::kText)) Fail("{} needs a str, not {}", use, TypeName(value));
  if (value.text().markup == Markup::kYes) Refuse("{} of escaped text", use);
  return value.text().bytes;
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = ReadCodePoint(text, at);
    size_t end = at + CodePointLength(text[at]);
    if (IsLineBreak(c)) {
      lines.push_back(text.substr(start, at - start));
      if (c == '\r' && end < text.size() && text[end] == '\n') ++end;
      start = end;
    }
    at = end;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string_view Strip(std::string_view text, const std::string* characters, StripSides sides) {
  const auto strips = [characters](std::string_view character) {
    if (characters == nullptr) return IsSpace(ReadCodePoint(character, 0));
    return characters->find(character) != std::string::npos;
  };
  while (sides != StripSides::kRight && !text.empty()) {
    const size_t length = CodePointLength(text[0]);
    if (!strips(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (sides != StripSides::kLeft && !text.empty()) {
    size_t start = text.size() - 1;
    while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!strips(text.substr(start))) break;
    text = text.substr(0, start);
  }
  return text;
}

size_t Find(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // glibc's memmem is linear in the worst case; std::string_view::find is not.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::string Replace(Budget& budget, std::string_view text, std::string_view from,
                    std::string_view to, int64_t count) {
  budget.Work(text.size());
  std::string out;
  size_t at = 0;
  const auto append_to = [&] {
    budget.Work(to.size());
    out += to;
  };
  if (from.empty()) {
    // Python puts `to` before every character and at the end.
    for (; count != 0; --count) {
      append_to();
      if (at >= text.size()) return out;
      const size_t length = CodePointLength(text[at]);
      out += text.substr(at, length);
      at += length;
    }
    out += text.substr(at);
    return out;
  }
  for (; count != 0; --count) {
    const size_t found = Find(text, from, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    append_to();
    at = found + from.size();
  }
  out += text.substr(at);
  return out;
}

std::vector<Value> Characters(Budget& budget, std::string_view text) {
  // A text of its own for each character.
  constexpr size_t kCharacterBytes = sizeof(Value) + 64;
  budget.Work(CountCodePoints(text) * kCharacterBytes);
  std::vector<Value> characters;
  for (size_t at = 0; at < text.size(); at += CodePointLength(text[at])) {
    characters.emplace_back(std::string(text.substr(at, CodePointLength(text[at]))));
  }
  return characters;
}

}  // namespace decant::jinja
