#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace decant {

/// Nanoseconds since an arbitrary start; never goes back.
inline int64_t SteadyNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A number of nanoseconds in seconds.
inline double NanosToSeconds(int64_t nanos) { return static_cast<double>(nanos) * 1e-9; }

/// SteadyNanos in seconds.
inline double SteadySeconds() { return NanosToSeconds(SteadyNanos()); }

/// The time now as "2025-01-31T23:59:59Z".
std::string UtcTimestamp();

/// `seconds` since 1970-01-01T00:00:00Z in the form of UtcTimestamp, for years 0 to 9999.
std::string FormatUtc(int64_t seconds);

/// Measures from its making, or from the last Restart.
class Stopwatch {
 public:
  Stopwatch() : start_(SteadyNanos()) {}

  double Seconds() const { return NanosToSeconds(SteadyNanos() - start_); }
  void Restart() { start_ = SteadyNanos(); }

 private:
  int64_t start_;
};

}  // namespace decant
