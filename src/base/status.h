#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace decant {

/// Why an operation did not do what was asked.
enum class StatusCode {
  kOk,
  kInvalidArgument,     ///< The caller's value is wrong; the message names it and what is allowed.
  kNotFound,            ///< A named file, tensor or key does not exist.
  kDataLoss,            ///< A file contradicts itself or its format.
  kResourceExhausted,   ///< It can never fit, or there is no room now; the message has the numbers.
  kFailedPrecondition,  ///< Right request, wrong state (an engine that has stopped).
  kUnimplemented,       ///< Valid, but not supported here.
  kCancelled,           ///< The caller gave up on it.
  kInternal,            ///< A fault of ours or of the machine.
};

/// The lower-case name of a code: "invalid argument".
std::string_view StatusCodeName(StatusCode code);

/// Success, or a code and a message that a person can act on. For what a caller can meet; broken
/// invariants are CHECKs.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {
    DECANT_CHECK(code != StatusCode::kOk, "an error needs an error's code");
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// "ok", or "data loss: the message".
  std::string ToString() const;

  /// The same error with `context` and ": " before its message; an ok status stays as it is.
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

/// An error whose message is formatted with fmt: `Error(StatusCode::kNotFound, "no tensor {}",
/// name)`.
template <typename... Args>
Status Error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return Error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

template <typename... Args>
Status DataLoss(fmt::format_string<Args...> format, Args&&... args) {
  return Error(StatusCode::kDataLoss, format, std::forward<Args>(args)...);
}

/// A T, or the Status that says why there is none. Never holds an ok Status.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Expected(Status status) : value_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    DECANT_CHECK(!std::get<Status>(value_).ok(), "an Expected without a value needs an error");
  }

  bool ok() const { return std::holds_alternative<T>(value_); }

  /// The error; ok if there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(value_); }

  T& value() & {
    DECANT_CHECK(ok(), "{}", std::get<Status>(value_).ToString());
    return std::get<T>(value_);
  }
  const T& value() const& {
    DECANT_CHECK(ok(), "{}", std::get<Status>(value_).ToString());
    return std::get<T>(value_);
  }
  T&& value() && {
    DECANT_CHECK(ok(), "{}", std::get<Status>(value_).ToString());
    return std::get<T>(std::move(value_));
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> value_;
};

}  // namespace decant

#define DECANT_CONCAT_INNER(a, b) a##b
#define DECANT_CONCAT(a, b) DECANT_CONCAT_INNER(a, b)

/// Returns the error of a Status expression from the enclosing function, if it is one.
#define DECANT_RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                         \
    if (::decant::Status decant_status_ = (expr); !decant_status_.ok()) return decant_status_; \
  } while (false)

/// DECANT_ASSIGN_OR_RETURN(auto x, F()); declares x from an Expected, or returns its error.
#define DECANT_ASSIGN_OR_RETURN(lhs, expr) \
  DECANT_ASSIGN_OR_RETURN_INNER(DECANT_CONCAT(decant_expected_, __LINE__), lhs, expr)
// Declarations cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define DECANT_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return tmp.status();                 \
  lhs = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)
