#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/step_runner.h"

namespace decant {

/// A runner whose device fails when a step is waited for: for drills of what stands behind an
/// engine, such as clients, probes and supervisors.
class FailingRunner : public StepRunner {
 public:
  /// The first step that fails is number `failing_step`, counted from 0.
  FailingRunner(std::unique_ptr<StepRunner> runner, uint64_t failing_step)
      : runner_(std::move(runner)), failing_step_(failing_step) {}

  Expected<Ticket> Launch(const StepPlan& plan) override { return runner_->Launch(plan); }

  Status Wait(Ticket ticket, StepResult& result) override {
    Status status = runner_->Wait(ticket, result);
    if (ticket.step < failing_step_) return status;
    return Error(StatusCode::kInternal, "step {} fails, as it was told to", ticket.step);
  }

 private:
  std::unique_ptr<StepRunner> runner_;
  uint64_t failing_step_;
};

}  // namespace decant
