#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace decant {
namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels = {{
    {"debug", LogLevel::kDebug},
    {"info", LogLevel::kInfo},
    {"warning", LogLevel::kWarning},
    {"error", LogLevel::kError},
    {"off", LogLevel::kOff},
}};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

std::unique_ptr<spdlog::logger> MakeLogger() {
  auto logger = std::make_unique<spdlog::logger>(
      "decant", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  // On a terminal a message first erases the live line that a Progress may have drawn.
  const std::string erase = isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "";
  logger->set_pattern(erase + "%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::info);
  if (const char* name = std::getenv("DECANT_LOG"); name != nullptr) {
    const Expected<LogLevel> level = ParseLogLevel(name);
    if (level.ok()) {
      logger->set_level(ToSpdlog(*level));
    } else {
      logger->warn("DECANT_LOG: {}", level.status().message());
    }
  }
  return logger;
}

spdlog::logger& Logger() {
  static spdlog::logger& logger = *MakeLogger().release();  // outlives every thread that logs
  return logger;
}

}  // namespace

Expected<LogLevel> ParseLogLevel(std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (name == known) return level;
  }
  return InvalidArgument("log level '{}' is none of debug, info, warning, error, off", name);
}

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kOff && Logger().should_log(ToSpdlog(level));
}

void internal::WriteLog(LogLevel level, std::string_view message) {
  Logger().log(ToSpdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace decant
