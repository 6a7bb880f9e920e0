#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "jinja/json.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

/// Writes a value; recursion is bounded by kMaxValueDepth.
class Writer {
 public:
  Writer(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  std::string Run(const Value& value) {
    Write(value, 0);
    return std::move(out_);
  }

 private:
  void Write(const Value& value, size_t level) {
    budget_.Step();
    switch (value.kind()) {
      case Value::Kind::kNone:
      case Value::Kind::kBool:
      case Value::Kind::kInt:
      case Value::Kind::kFloat:
        Append(ScalarText(value));
        return;
      case Value::Kind::kText:
        WriteText(value.text().bytes);
        return;
      case Value::Kind::kSequence:
        if (value.sequence().kind() == SequenceKind::kList ||
            value.sequence().kind() == SequenceKind::kTuple) {
          WriteList(value.sequence().items(), level);
          return;
        }
        break;
      case Value::Kind::kDict:
        WriteDict(value.dict(), level);
        return;
      default:
        break;
    }
    if (value.is(Value::Kind::kUndefined)) Fail("tojson of undefined: {}", WhyUndefined(value));
    Fail("tojson of a {}", TypeName(value));
  }

  static std::string ScalarText(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kBool:
        return value.boolean() ? "true" : "false";
      case Value::Kind::kInt:
        return fmt::format("{}", value.integer());
      case Value::Kind::kFloat:
        if (std::isnan(value.floating())) return "NaN";
        if (std::isinf(value.floating())) return value.floating() > 0 ? "Infinity" : "-Infinity";
        return FloatText(value.floating());
      default:
        return "null";
    }
  }

  void Append(std::string_view text) {
    budget_.Work(text.size());
    out_ += text;
  }

  void AppendUnit(uint32_t unit) { out_ += fmt::format("\\u{:04x}", unit); }

  void AppendAscii(char32_t c) {
    if (c <= 0xFFFF) {
      AppendUnit(static_cast<uint32_t>(c));
      return;
    }
    const auto offset = static_cast<uint32_t>(c) - 0x10000;
    AppendUnit(0xD800 + (offset >> 10));
    AppendUnit(0xDC00 + (offset & 0x3FF));
  }

  void WriteText(std::string_view text) {
    budget_.Work(text.size() + 2);
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const size_t length = CodePointLength(text[at]);
      const char32_t c = ReadCodePoint(text, at);
      if (!WriteShortEscape(c)) {
        const bool ascii = style_.characters == JsonStyle::Characters::kAscii;
        if (c < 0x20 || (ascii && c >= 0x7F)) {
          budget_.Work(12);
          AppendAscii(c);
        } else {
          out_ += text.substr(at, length);
        }
      }
      at += length;
    }
    out_.push_back('"');
  }

  bool WriteShortEscape(char32_t c) {
    switch (c) {
      case '"':
        out_ += "\\\"";
        return true;
      case '\\':
        out_ += "\\\\";
        return true;
      case '\n':
        out_ += "\\n";
        return true;
      case '\r':
        out_ += "\\r";
        return true;
      case '\t':
        out_ += "\\t";
        return true;
      case '\b':
        out_ += "\\b";
        return true;
      case '\f':
        out_ += "\\f";
        return true;
      default:
        return false;
    }
  }

  void NewLine(size_t level) {
    if (style_.layout == JsonStyle::Layout::kOneLine) return;
    Append("\n");
    for (size_t i = 0; i < level; ++i) Append(style_.indent);
  }

  void WriteList(const std::vector<Value>& items, size_t level) {
    Append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Append(style_.item_separator);
      NewLine(level + 1);
      Write(items[i], level + 1);
    }
    if (!items.empty()) NewLine(level);
    Append("]");
  }

  void WriteDict(const Dict& dict, size_t level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.keys == JsonStyle::Keys::kSorted) Sort(entries);
    Append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) Append(style_.item_separator);
      NewLine(level + 1);
      const Value& key = entries[i]->key;
      if (key.is(Value::Kind::kUndefined)) Fail("tojson of undefined: {}", WhyUndefined(key));
      WriteText(key.is(Value::Kind::kText) ? key.text().bytes : ScalarText(key));
      Append(style_.key_separator);
      Write(entries[i]->value, level + 1);
    }
    if (!entries.empty()) NewLine(level);
    Append("}");
  }

  void Sort(std::vector<const Dict::Entry*>& entries) {
    budget_.Work(entries.size() * sizeof(Dict::Entry));
    for (const Dict::Entry* entry : entries) {
      if (!entry->key.is(Value::Kind::kText)) Refuse("sorting keys that are not all text");
    }
    const KeyOrder less;
    std::sort(entries.begin(), entries.end(),
              [&](const Dict::Entry* a, const Dict::Entry* b) { return less(a->key, b->key); });
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string WriteJson(Budget& budget, const Value& value, const JsonStyle& style) {
  return Writer(budget, style).Run(value);
}

}  // namespace decant::jinja
