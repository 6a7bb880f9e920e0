#pragma once

#include <cstdint>
#include <vector>

namespace decant {

/// Time stamps in the order of a device's work. A stamp waits for nothing on the host: the device
/// takes it when it gets there.
class OpsClock {
 public:
  virtual ~OpsClock() = default;

  /// Forgets all stamps; the device must have passed them.
  virtual void Restart() = 0;

  /// Stamps the moment at which all work queued so far is done.
  virtual void Mark() = 0;

  /// Seconds between each stamp and the next, once the device has passed them all: one fewer than
  /// there are stamps.
  virtual std::vector<double> Intervals() const = 0;
};

/// For operations that are done when their call returns.
class HostClock : public OpsClock {
 public:
  void Restart() override { marks_.clear(); }
  void Mark() override;
  std::vector<double> Intervals() const override;

 private:
  std::vector<int64_t> marks_;  // SteadyNanos
};

}  // namespace decant
