#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/status.h"

namespace decant {

/// How much a message matters; a level shows itself and those after it.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// "debug", "info", "warning", "error" or "off"; an error names these five.
Expected<LogLevel> ParseLogLevel(std::string_view name);

/// Sets the level of the whole process. Until it is called the level is that of the environment
/// variable DECANT_LOG, or info.
void SetLogLevel(LogLevel level);

/// Whether a message of `level` would be written.
bool LogEnabled(LogLevel level);

namespace internal {
void WriteLog(LogLevel level, std::string_view message);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) WriteLog(level, fmt::format(format, std::forward<Args>(args)...));
}
}  // namespace internal

// One line on stderr, from any thread; the message is formatted only if its level is shown.

template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  internal::Log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  internal::Log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}

template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  internal::Log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}

template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  internal::Log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace decant
