#include "base/json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace decant {
namespace {

/// Length of the UTF-8 sequence at the start of `text` (not empty), or 0 if it is malformed
/// (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2, 0x80, 0xBF) && continues(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

void AppendEscaped(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      if (c < 0x20 || c == 0x7F) {
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += static_cast<char>(c);
      }
  }
}

}  // namespace

std::string JsonQuote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else if (length == 1) {
      AppendEscaped(out, static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  out += '"';
  return out;
}

std::string JsonNumber(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

JsonObject& JsonObject::AddJson(std::string_view key, std::string_view json) {
  if (!body_.empty()) body_ += ", ";
  body_ += JsonQuote(key);
  body_ += ": ";
  body_ += json;
  return *this;
}

JsonObject& JsonObject::Add(std::string_view key, std::string_view value) {
  return AddJson(key, JsonQuote(value));
}

JsonObject& JsonObject::Add(std::string_view key, const char* value) {
  return AddJson(key, JsonQuote(value));
}

JsonObject& JsonObject::Add(std::string_view key, double value) {
  return AddJson(key, JsonNumber(value));
}

JsonObject& JsonObject::Add(std::string_view key, const JsonObject& value) {
  return AddJson(key, value.ToString());
}

JsonObject& JsonObject::Add(std::string_view key, const JsonArray& value) {
  return AddJson(key, value.ToString());
}

JsonArray& JsonArray::AddJson(std::string_view json) {
  if (!body_.empty()) body_ += ", ";
  body_ += json;
  return *this;
}

JsonArray& JsonArray::Add(std::string_view value) { return AddJson(JsonQuote(value)); }

JsonArray& JsonArray::Add(const char* value) { return AddJson(JsonQuote(value)); }

JsonArray& JsonArray::Add(double value) { return AddJson(JsonNumber(value)); }

JsonArray& JsonArray::Add(const JsonObject& value) { return AddJson(value.ToString()); }

}  // namespace decant
