#include "engine/fake_step_runner.h"

#include <thread>

namespace decant {

Expected<Ticket> FakeStepRunner::Launch(const StepPlan& plan) {
  if (plan.step >= options_.failing_launch) {
    return Error(StatusCode::kInternal, "the device refused step {}", plan.step);
  }
  if (plan.empty() || plan.step != next_step_ || launched_.size() == 2) {
    return Error(StatusCode::kInternal, "step {} of {} rows launched as step {} with {} in flight",
                 plan.step, plan.rows.size(), next_step_, launched_.size());
  }
  ++next_step_;
  launched_.push_back(&plan);
  return Ticket{plan.step};
}

Status FakeStepRunner::Wait(Ticket ticket, StepResult& result) {
  if (launched_.empty() || launched_.front()->step != ticket.step) {
    return Error(StatusCode::kInternal, "waited for step {} out of turn", ticket.step);
  }
  const StepPlan& plan = *launched_.front();
  launched_.pop_front();
  if (options_.step_time.count() > 0) std::this_thread::sleep_for(options_.step_time);
  DECANT_ASSIGN_OR_RETURN(result, forward_.Run(plan));
  result.gap = options_.gap;
  if (plan.step >= options_.failing_wait) {
    return Error(StatusCode::kInternal, "the device died in step {}", plan.step);
  }
  return {};
}

}  // namespace decant
