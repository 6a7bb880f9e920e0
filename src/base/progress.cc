#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace decant {
namespace {

constexpr double kLiveInterval = 0.1;    // seconds
constexpr double kPlainInterval = 10.0;  // seconds

}  // namespace

std::string FormatProgress(const std::string& label, int64_t done, int64_t total,
                           const std::string& unit, double seconds, const std::string& note) {
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  std::string amount;
  if (unit == "bytes") {
    constexpr double kMiB = 1 << 20;
    amount = fmt::format("{:.0f} of {:.0f} MiB", static_cast<double>(done) / kMiB,
                         static_cast<double>(total) / kMiB);
  } else {
    amount = fmt::format("{} of {} {}", done, total, unit);
  }
  std::string line = fmt::format("{} {:3.0f}% ({}, {:.0f} s", label, 100 * share, amount, seconds);
  if (share > 0 && share < 1) {
    line += fmt::format(", {:.0f} s left", seconds * (1 - share) / share);
  }
  line += ')';
  if (!note.empty()) line += " " + note;
  return line;
}

Progress::Progress(std::string label, int64_t total, std::string unit, Options options)
    : label_(std::move(label)),
      total_(total),
      unit_(std::move(unit)),
      out_(options.out),
      live_(options.live.value_or(isatty(fileno(options.out)) != 0)),
      clock_(options.clock),
      start_(clock_()),
      last_draw_(start_) {
  DECANT_CHECK(total > 0, "progress of '{}' needs a total, not {}", label_, total);
}

Progress::~Progress() { Finish(); }

void Progress::Advance(int64_t amount) {
  const std::lock_guard lock(mutex_);
  done_ += amount;
  const double now = clock_();
  if (now - last_draw_ >= (live_ ? kLiveInterval : kPlainInterval)) Draw(now);
}

void Progress::SetNote(std::string note) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(note);
}

void Progress::Finish() {
  const std::lock_guard lock(mutex_);
  if (live_ && drawn_) {
    std::fputs("\r\x1b[K", out_);
    std::fflush(out_);
    drawn_ = false;
  }
}

void Progress::Draw(double now) {
  const std::string line = FormatProgress(label_, done_, total_, unit_, now - start_, note_);
  std::fputs((live_ ? "\r\x1b[K" + line : line + "\n").c_str(), out_);
  std::fflush(out_);
  last_draw_ = now;
  drawn_ = true;
}

}  // namespace decant
