#include "runtime/forward_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "model/forward.h"
#include "runtime/step_failures.h"

namespace decant {

ForwardRunner::ForwardRunner(Ops& ops, const DecoderWeights& weights, int32_t max_rows,
                             LogitsObserver observer)
    : ops_(ops),
      weights_(weights),
      observer_(std::move(observer)),
      sampling_(max_rows),
      thread_([this] { ThreadLoop(); }) {}

ForwardRunner::~ForwardRunner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  launched_.notify_one();
  thread_.join();
}

Expected<Ticket> ForwardRunner::Launch(const StepPlan& plan) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&plan);
  }
  launched_.notify_one();
  return Ticket{plan.step};
}

Status ForwardRunner::Wait(Ticket ticket, StepResult& result) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return !results_.empty(); });
  result = std::move(results_.front());
  results_.pop_front();
  DECANT_CHECK(result.step == ticket.step, "step {} waited for, step {} is the oldest", ticket.step,
               result.step);
  return {};
}

void ForwardRunner::ThreadLoop() {
  for (;;) {
    const StepPlan* plan = nullptr;
    {
      std::unique_lock lock(mutex_);
      launched_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      plan = queue_.front();
      queue_.pop_front();
    }
    StepResult result = RunStep(*plan);
    {
      const std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    }
    finished_.notify_one();
  }
}

StepResult ForwardRunner::RunStep(const StepPlan& plan) {
  const int64_t start = SteadyNanos();
  const StepBatch& batch =
      packed_.Pack(plan, [this](int32_t row) { return sampling_.last_token(row); });
  const TensorView residual = Forward(ops_, weights_, batch);
  const Status reported = sampling_.ReportPrompts(
      plan, packed_, ops_, [&](std::span<const int32_t> tokens) -> Expected<TensorView> {
        return Logits(ops_, weights_, residual, tokens);
      });
  DECANT_CHECK(reported.ok(), "{}", reported.ToString());
  const TensorView logits = Logits(ops_, weights_, residual, packed_.logits_tokens());
  if (observer_) observer_(plan, logits);

  StepResult result{.step = plan.step, .failures = FailuresOf(plan, packed_, ops_.TakeFaults())};
  std::vector<const PlannedRow*> sampling;
  for (const PlannedRow& row : plan.rows) {
    if (row.samples) sampling.push_back(&row);
  }
  result.tokens.resize(sampling.size());
  std::vector<char> can_draw(sampling.size());
  ops_.ParallelFor(static_cast<int64_t>(sampling.size()), [&](int64_t i) {
    const std::span<const float> row(logits.Row<float>(i), static_cast<size_t>(logits.cols));
    can_draw[i] = CanDraw(row) ? 1 : 0;
    result.tokens[i] = sampling_.Sample(*sampling[i], row);
  });
  for (size_t i = 0; i < sampling.size(); ++i) {
    if (can_draw[i] == 0) result.failures.push_back(NoDraw(*sampling[i]));
  }
  ops_.EndPart(StepPart::kSample);
  const StepCost cost = ops_.Cost();
  result.bytes = cost.bytes;
  result.operations = cost.operations;
  const int64_t end = SteadyNanos();
  result.seconds = NanosToSeconds(end - start);
  if (last_end_) result.gap = NanosToSeconds(start - *last_end_);
  last_end_ = end;
  return result;
}

}  // namespace decant
