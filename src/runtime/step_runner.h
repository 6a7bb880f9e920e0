#pragma once

#include <cstdint>

#include "base/status.h"
#include "sched/step_plan.h"

namespace decant {

/// Names a launched step.
struct Ticket {
  uint64_t step = 0;
};

/// Runs planned steps in order: packs a plan, runs one forward, samples. One thread calls it; at
/// most two steps are launched and not yet waited for, so that a step can be planned and launched
/// while the one before it runs.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  /// Starts a step and returns at once. `plan` must stay valid until Wait. A row whose
  /// prompt_tokens is empty takes the token that the same row sampled in the step launched before.
  virtual Expected<Ticket> Launch(const StepPlan& plan) = 0;

  /// Waits for a launched step, oldest first, and puts what it produced in place of what `result`
  /// holds, whose memory is used again. An error means that the device failed and no later step
  /// will succeed; what `result` holds then is nothing to go by.
  virtual Status Wait(Ticket ticket, StepResult& result) = 0;
};

}  // namespace decant
