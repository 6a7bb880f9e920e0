#include "engine/statistics.h"

namespace decant {

void StepHistory::Add(const StepRecord& record) {
  if (records_.size() < capacity_) {
    records_.push_back(record);
  } else if (capacity_ > 0) {
    records_[oldest_] = record;
    oldest_ = (oldest_ + 1) % capacity_;
  }
}

std::vector<StepRecord> StepHistory::Records() const {
  std::vector<StepRecord> records;
  records.reserve(records_.size());
  const auto oldest = records_.begin() + static_cast<std::ptrdiff_t>(oldest_);
  records.insert(records.end(), oldest, records_.end());
  records.insert(records.end(), records_.begin(), oldest);
  return records;
}

}  // namespace decant
