#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/json_input.h"

namespace decant {

/// The numbers that a parameter may be.
struct NumberRange {
  double low = 0;
  double high = 0;
  bool above_low = false;  ///< `low` itself is not allowed.
};

/// A parameter that may only say what is done anyway.
struct FixedFlag {
  std::string_view name;
  bool value = false;
};

/// Reads the parameters of a request one by one and remembers the first error, so that a caller
/// reads them all and asks once. A parameter that is null counts as absent. After an error, readers
/// give what they find or nothing.
class ParameterReader {
 public:
  /// `object` must outlive the reader; anything but an object is an error.
  explicit ParameterReader(const Json& object);

  /// Refuses, by name, what is neither in `known` nor in `fixed` with its value there.
  void RefuseOthers(std::span<const std::string_view> known, std::span<const FixedFlag> fixed = {});

  /// The parameter; null where it is absent.
  const Json* Find(std::string_view name) const;

  std::optional<bool> Bool(std::string_view name);
  std::optional<std::string> String(std::string_view name);
  /// A whole number; 16.0 is one.
  std::optional<int64_t> Integer(std::string_view name, int64_t low, int64_t high);
  std::optional<float> Number(std::string_view name, const NumberRange& range);

  /// Remembers that what stands at `place`, a parameter's name or "messages[1].content", is wrong;
  /// `message` says what is allowed.
  void Fail(std::string_view place, std::string message, std::string_view code = {});
  void Fail(ApiError error);

  bool ok() const { return !error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  std::optional<ApiError> error_;
};

/// The whole number that `value` is, if one in [low, high].
std::optional<int64_t> WholeNumber(const Json& value, int64_t low, int64_t high);

/// `value` for an error's text, cut short.
std::string Excerpt(const Json& value);

}  // namespace decant
