#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace decant {

class JsonArray;

/// `text` as a JSON string with its quotes. Control characters are escaped, so the result has no
/// line break; bytes that are not UTF-8 become U+FFFD, so it is always valid JSON.
std::string JsonQuote(std::string_view text);

/// The shortest number that reads back as `value`; "null" for NaN and infinities, which JSON lacks.
std::string JsonNumber(double value);

/// Builds the text of one JSON object, keys in the order added, on one line.
class JsonObject {
 public:
  JsonObject& Add(std::string_view key, std::string_view value);
  JsonObject& Add(std::string_view key, const char* value);
  JsonObject& Add(std::string_view key, double value);
  JsonObject& Add(std::string_view key, const JsonObject& value);
  JsonObject& Add(std::string_view key, const JsonArray& value);
  template <std::integral T>
  JsonObject& Add(std::string_view key, T value) {
    if constexpr (std::same_as<T, bool>) {
      return AddJson(key, value ? "true" : "false");
    } else {
      return AddJson(key, std::to_string(value));
    }
  }
  /// `json` is a whole JSON value already.
  JsonObject& AddJson(std::string_view key, std::string_view json);

  std::string ToString() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

/// Builds the text of one JSON array, on one line.
class JsonArray {
 public:
  JsonArray& Add(std::string_view value);
  JsonArray& Add(const char* value);
  JsonArray& Add(double value);
  JsonArray& Add(const JsonObject& value);
  template <std::integral T>
  JsonArray& Add(T value) {
    if constexpr (std::same_as<T, bool>) {
      return AddJson(value ? "true" : "false");
    } else {
      return AddJson(std::to_string(value));
    }
  }
  /// `json` is a whole JSON value already.
  JsonArray& AddJson(std::string_view json);

  std::string ToString() const { return "[" + body_ + "]"; }

 private:
  std::string body_;
};

}  // namespace decant
