#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/ops_clock.h"

namespace decant {

/// Stamps in a stream, each an event. A kernel behind an event starts only when the one before it
/// has ended, so what programmatic launches overlap without a clock comes one after the other with
/// it. The stream must outlive the clock; `note` is told of what fails.
class CudaClock : public OpsClock {
 public:
  CudaClock(const CudaStream& stream, std::function<void(const Status&)> note)
      : stream_(stream), note_(std::move(note)) {}

  void Restart() override { marks_ = 0; }
  void Mark() override;
  std::vector<double> Intervals() const override;

 private:
  const CudaStream& stream_;
  std::function<void(const Status&)> note_;
  std::vector<CudaEvent> events_;  // made as they are needed, and kept
  size_t marks_ = 0;
};

}  // namespace decant
