#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>

#include "runtime/step_runner.h"
#include "sched/fake_forward.h"

namespace decant {

/// A StepRunner over a FakeForward, for tests of what stands on a step runner. It computes as late
/// as it may, in Wait, so that a plan or a page that died too early shows; calls out of turn are
/// internal errors.
class FakeStepRunner : public StepRunner {
 public:
  struct Options {
    std::chrono::microseconds step_time{0};  ///< Wait takes this long.
    double gap = 0;                          ///< What results say, in seconds.
    /// The first step whose Launch or Wait fails.
    uint64_t failing_launch = std::numeric_limits<uint64_t>::max();
    uint64_t failing_wait = std::numeric_limits<uint64_t>::max();
  };

  /// `forward` must outlive the runner.
  FakeStepRunner(FakeForward& forward, const Options& options)
      : forward_(forward), options_(options) {}

  Expected<Ticket> Launch(const StepPlan& plan) override;
  Status Wait(Ticket ticket, StepResult& result) override;

 private:
  FakeForward& forward_;
  Options options_;
  uint64_t next_step_ = 0;
  std::deque<const StepPlan*> launched_;
};

}  // namespace decant
