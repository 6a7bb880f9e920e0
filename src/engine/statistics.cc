#include "engine/statistics.h"

#include <algorithm>

namespace decant {

void StepHistory::Add(const StepRecord& record) {
  records_.push_back(record);
  if (records_.size() > capacity_) records_.pop_front();
}

std::vector<StepRecord> StepHistory::Since(uint64_t step, size_t most) const {
  const auto first = std::ranges::lower_bound(records_, step, {}, &StepRecord::step);
  const auto count = std::min(most, static_cast<size_t>(records_.end() - first));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace decant
