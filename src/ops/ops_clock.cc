#include "ops/ops_clock.h"

#include "base/clock.h"

namespace decant {

void HostClock::Mark() { marks_.push_back(SteadyNanos()); }

std::vector<double> HostClock::Intervals() const {
  std::vector<double> seconds;
  for (size_t i = 1; i < marks_.size(); ++i) {
    seconds.push_back(static_cast<double>(marks_[i] - marks_[i - 1]) * 1e-9);
  }
  return seconds;
}

}  // namespace decant
