#pragma once

#include <fmt/format.h>

#include <string>

namespace decant::internal {

/// Prints file, line, the condition and the message to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

}  // namespace decant::internal

/// Aborts with a message unless `condition` holds: for broken invariants, never for bad input.
/// DECANT_CHECK(cond) or DECANT_CHECK(cond, "format {}", args...).
#define DECANT_CHECK(condition, ...)                                  \
  do {                                                                \
    if (!(condition)) [[unlikely]] {                                  \
      ::decant::internal::CheckFailed(__FILE__, __LINE__, #condition, \
                                      ::fmt::format("" __VA_ARGS__)); \
    }                                                                 \
  } while (false)
