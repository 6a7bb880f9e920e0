#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/status.h"

namespace decant::jinja {

/// Whose words a failure's message holds: the interpreter's, which get the line before them, or the
/// template's own, from raise_exception().
enum class FailureWords { kInterpreter, kTemplate };

/// Thrown where a template or its rendering fails and caught by Template::Parse and
/// Template::Render: inside this folder a failure may come from any depth of recursion; no
/// exception leaves it.
class Failure {
 public:
  Failure(Status status, FailureWords words) : status_(std::move(status)), words_(words) {}

  const Status& status() const { return status_; }
  FailureWords words() const { return words_; }

 private:
  Status status_;
  FailureWords words_;
};

/// What Python or jinja2 would raise too: a value of the wrong type, an undefined name.
template <typename... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(InvalidArgument(format, std::forward<Args>(args)...), FailureWords::kInterpreter);
}

/// What jinja2 would do, but this subset does not.
template <typename... Args>
[[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(Error(StatusCode::kUnimplemented, format, std::forward<Args>(args)...),
                FailureWords::kInterpreter);
}

/// A limit that the template ran into.
template <typename... Args>
[[noreturn]] void FailLimit(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(Error(StatusCode::kResourceExhausted, format, std::forward<Args>(args)...),
                FailureWords::kInterpreter);
}

}  // namespace decant::jinja
