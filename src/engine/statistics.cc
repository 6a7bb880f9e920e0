#include "engine/statistics.h"

namespace decant {

void StepHistory::Add(const StepRecord& record) {
  records_.push_back(record);
  if (records_.size() > capacity_) records_.pop_front();
}

}  // namespace decant
