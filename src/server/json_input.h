#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace decant {

/// A value that a client sent; objects keep the order of their keys.
using Json = nlohmann::ordered_json;

/// What a request's JSON may be, so that work and memory stay bounded whatever a client sends.
struct JsonLimits {
  int depth = 64;                   ///< Brackets within brackets.
  size_t values = size_t{1} << 20;  ///< Of all kinds, those in arrays and objects included.
  size_t keys_in_an_object = size_t{1} << 11;
  size_t keys = size_t{1} << 17;  ///< Of all objects.
};

/// The value of a JSON text. Invalid argument: not JSON (RFC 8259: so no NaN, no lone surrogate, no
/// ill-formed UTF-8), a number that no double holds, a key that an object has twice, or more of
/// something than `limits` allows.
Expected<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

/// Its text, on one line, with U+FFFD for what is not UTF-8.
std::string JsonText(const Json& value);

/// What kind of value it is, for errors: "a string", "an array", "null".
std::string_view JsonKind(const Json& value);

}  // namespace decant
