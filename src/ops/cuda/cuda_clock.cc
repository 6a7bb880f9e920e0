#include "ops/cuda/cuda_clock.h"

namespace decant {

void CudaClock::Mark() {
  if (marks_ == events_.size()) {
    Expected<CudaEvent> event = CudaEvent::Create();
    if (!event.ok()) return note_(event.status());
    events_.push_back(std::move(event).value());
  }
  note_(events_[marks_++].Record(stream_));
}

std::vector<double> CudaClock::Intervals() const {
  std::vector<double> seconds;
  for (size_t i = 1; i < marks_; ++i) seconds.push_back(events_[i].SecondsSince(events_[i - 1]));
  return seconds;
}

}  // namespace decant
