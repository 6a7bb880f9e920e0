#include "bench/run_requests.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/interrupt.h"

namespace decant {
namespace {

/// How often a thread that waits looks for an interrupt.
constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(50);

}  // namespace

GenerateRequest BenchRequest(const WorkItem& item, StreamSink sink) {
  GenerateRequest request;
  request.prompt = item.prompt;
  request.max_new_tokens = item.budget;
  request.ignore_end_of_text = true;
  request.sink = std::move(sink);
  return request;
}

void RunEndings::Ended(size_t index, const StreamUpdate& update) {
  const std::lock_guard lock(mutex_);
  ++ended_;
  if (*update.finish != FinishReason::kBudget && fault_.ok()) {
    fault_ = Error(StatusCode::kInternal, "request {} of the run ended by '{}' after {} tokens{}{}",
                   index, FinishReasonName(*update.finish), update.generated_tokens,
                   update.status.ok() ? "" : ": ", update.status.message());
  }
  // Under the lock: the waiting thread may destroy this object as soon as it has the lock.
  wake_.notify_one();
}

bool RunEndings::SleepUntil(int64_t time) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (InterruptRequested() || !fault_.ok()) return false;
    const std::chrono::nanoseconds left(time - SteadyNanos());
    if (left.count() <= 0) return true;
    wake_.wait_for(lock, std::min(left, kLook));
  }
}

void RunEndings::Wait(size_t count, const std::function<void()>& cancel) {
  bool cancelled = false;
  std::unique_lock lock(mutex_);
  while (ended_ < count) {
    wake_.wait_for(lock, kLook);
    if (!cancelled && InterruptRequested()) {
      cancelled = true;
      lock.unlock();
      cancel();
      lock.lock();
    }
  }
}

Status RunEndings::Outcome() const {
  if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
  return fault_;
}

Expected<std::vector<StepRecord>> StepsSince(const Engine& engine, uint64_t first,
                                             uint64_t generated) {
  EngineStats stats = engine.Stats();
  while (stats.generated_tokens < generated) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    stats = engine.Stats();
  }
  std::vector<StepRecord> steps = engine.Steps();
  std::erase_if(steps, [&](const StepRecord& step) { return step.step < first; });
  if (steps.size() != stats.steps() - first) {
    return Error(StatusCode::kInternal, "the engine kept {} of the run's {} steps", steps.size(),
                 stats.steps() - first);
  }
  return steps;
}

}  // namespace decant
