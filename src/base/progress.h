#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace decant {

/// Shows how far a long piece of work is: on a terminal one live line, redrawn at most ten times a
/// second; elsewhere (a log) a plain line every ten seconds. Work that ends within the first of
/// those intervals shows nothing. Any thread may call it.
class Progress {
 public:
  struct Options {
    std::FILE* out = stderr;
    std::optional<bool> live;           ///< Whether `out` is a terminal; empty: find out.
    double (*clock)() = SteadySeconds;  ///< Seconds; tests have their own.
  };

  /// `total` > 0 counts in `unit`, a plural ("requests", "bytes"); bytes are shown in MiB.
  Progress(std::string label, int64_t total, std::string unit, Options options);
  Progress(std::string label, int64_t total, std::string unit)
      : Progress(std::move(label), total, std::move(unit), Options{}) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `amount` more is done.
  void Advance(int64_t amount);

  /// A few words after the numbers ("step 120, 31 rows"); shown from the next redraw on.
  void SetNote(std::string note);

  /// Erases the live line; called by the destructor too.
  void Finish();

 private:
  void Draw(double now);  // the caller holds mutex_

  const std::string label_;
  const int64_t total_;
  const std::string unit_;
  std::FILE* const out_;
  const bool live_;
  double (*const clock_)();
  const double start_;
  std::mutex mutex_;
  int64_t done_ = 0;
  std::string note_;
  double last_draw_;
  bool drawn_ = false;
};

/// The text of a progress line: "label  45% (123 of 270 requests, 12 s, 15 s left) note".
std::string FormatProgress(const std::string& label, int64_t done, int64_t total,
                           const std::string& unit, double seconds, const std::string& note);

}  // namespace decant
