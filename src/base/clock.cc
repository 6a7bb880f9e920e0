#include "base/clock.h"

#include <fmt/format.h>

namespace decant {

std::string FormatUtc(int64_t seconds) {
  using std::chrono::floor;
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::string UtcTimestamp() {
  const auto now =
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()).time_since_epoch();
  return FormatUtc(now.count());
}

}  // namespace decant
