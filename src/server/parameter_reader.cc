#include "server/parameter_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "text/utf8.h"

namespace decant {

ParameterReader::ParameterReader(const Json& object) : object_(object) {
  if (object.is_object()) return;
  Fail({.message = fmt::format("the body is {}: it must be a JSON object", JsonKind(object))});
}

void ParameterReader::RefuseOthers(std::span<const std::string_view> known,
                                   std::span<const FixedFlag> fixed) {
  if (!object_.is_object()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto flag = std::ranges::find(fixed, name, &FixedFlag::name);
    const bool is_fixed = flag != fixed.end();
    if (is_fixed && (value.is_null() || value == flag->value)) continue;
    const std::string shown = RepairUtf8(std::string_view(name).substr(0, 64));
    Fail({.message = fmt::format("'{}' is not a parameter that this server supports{}", shown,
                                 is_fixed ? fmt::format(" other than as {}", flag->value) : ""),
          .param = shown,
          .code = "unsupported_parameter"});
    return;
  }
}

const Json* ParameterReader::Find(std::string_view name) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> ParameterReader::Bool(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, fmt::format("'{}' is {}: it must be true or false", name, Excerpt(*value)));
  return std::nullopt;
}

std::optional<std::string> ParameterReader::String(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, fmt::format("'{}' is {}: it must be a string", name, Excerpt(*value)));
  return std::nullopt;
}

std::optional<int64_t> ParameterReader::Integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = WholeNumber(*value, low, high);
  if (!number) {
    Fail(name, fmt::format("'{}' is {}: it must be an integer from {} to {}", name, Excerpt(*value),
                           low, high));
  }
  return number;
}

std::optional<float> ParameterReader::Number(std::string_view name, const NumberRange& range) {
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    const bool over_low = range.above_low ? number > range.low : number >= range.low;
    if (over_low && number <= range.high) return static_cast<float>(number);
  }
  Fail(name,
       fmt::format("'{}' is {}: it must be a number {} {} and at most {}", name, Excerpt(*value),
                   range.above_low ? "above" : "of at least", range.low, range.high));
  return std::nullopt;
}

void ParameterReader::Fail(std::string_view place, std::string message, std::string_view code) {
  const std::string_view parameter = place.substr(0, place.find_first_of(".["));
  Fail({.message = std::move(message), .param = std::string(parameter), .code = std::string(code)});
}

void ParameterReader::Fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

std::optional<int64_t> WholeNumber(const Json& value, int64_t low, int64_t high) {
  int64_t number = 0;
  if (value.is_number_float()) {
    const auto real = value.get<double>();
    // Beyond 2^53 a double no longer tells which whole number was meant.
    if (!(real == std::trunc(real) && std::abs(real) <= 0x1.0p53)) return std::nullopt;
    number = static_cast<int64_t>(real);
  } else if (value.is_number_unsigned()) {
    if (!std::in_range<int64_t>(value.get<uint64_t>())) return std::nullopt;
    number = static_cast<int64_t>(value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else {
    return std::nullopt;
  }
  return number >= low && number <= high ? std::optional(number) : std::nullopt;
}

std::string Excerpt(const Json& value) {
  constexpr size_t kMost = 40;
  // The text of a large value would be long in the making.
  if (value.is_structured()) return std::string(JsonKind(value));
  if (!value.is_string()) return JsonText(value);
  const auto& text = value.get_ref<const std::string&>();
  return JsonText(text.size() <= kMost ? text : text.substr(0, kMost) + "…");
}

}  // namespace decant
