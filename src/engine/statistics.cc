#include "engine/statistics.h"

#include <algorithm>

namespace decant {

StepHistory::StepHistory(size_t capacity) : capacity_(capacity) {
  records_.reserve(std::min(capacity, kReady));
}

void StepHistory::Add(const StepRecord& record) {
  if (records_.size() < capacity_) {
    records_.push_back(record);
  } else if (capacity_ > 0) {
    records_[oldest_] = record;
    oldest_ = (oldest_ + 1) % capacity_;
  }
}

std::vector<StepRecord> StepHistory::Slice(size_t first, size_t count) const {
  std::vector<StepRecord> records;
  records.reserve(count);
  for (size_t i = 0; i < count; ++i) records.push_back(At(first + i));
  return records;
}

std::vector<StepRecord> StepHistory::Since(uint64_t step, size_t most) const {
  size_t first = 0;
  for (size_t end = records_.size(); first < end;) {
    const size_t middle = first + (end - first) / 2;
    if (At(middle).step < step) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return Slice(first, std::min(most, records_.size() - first));
}

}  // namespace decant
