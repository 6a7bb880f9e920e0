#include "bench/closed_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/narrow.h"

namespace decant {
namespace {

/// What the sinks of a run write down. Lives on the stack of RunClosed, which does not return
/// before every sink has had its last call.
class Recorder {
 public:
  Recorder(const Workload& workload, const std::function<void()>& on_token)
      : on_token_(on_token), start_(SteadyNanos()), times_(workload.items.size()) {
    for (size_t i = 0; i < times_.size(); ++i) {
      times_[i].tokens.reserve(static_cast<size_t>(workload.items[i].budget));
    }
  }

  void Update(size_t index, const StreamUpdate& update) {
    const double now = static_cast<double>(update.time - start_) * 1e-9;
    if (update.token) {
      if (update.generated_tokens == 1) times_[index].first_token = now;
      times_[index].last_token = now;
      times_[index].tokens.push_back(*update.token);
      on_token_();
    }
    if (!update.finish) return;
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (*update.finish != FinishReason::kBudget && fault_.ok()) {
      fault_ =
          Error(StatusCode::kInternal, "request {} of the batch ended by '{}' after {} tokens{}{}",
                index, FinishReasonName(*update.finish), update.generated_tokens,
                update.status.ok() ? "" : ": ", update.status.message());
    }
    // Under the lock: the waiting thread may destroy this object as soon as it has the lock.
    wake_.notify_one();
  }

  /// Waits until `submitted` requests have ended; calls `cancel` once if the person interrupts.
  void Wait(size_t submitted, const std::function<void()>& cancel) {
    bool cancelled = false;
    std::unique_lock lock(mutex_);
    while (ended_ < submitted) {
      wake_.wait_for(lock, std::chrono::milliseconds(50));
      if (!cancelled && InterruptRequested()) {
        cancelled = true;
        lock.unlock();
        cancel();
        lock.lock();
      }
    }
  }

  const Status& fault() const { return fault_; }
  std::vector<RequestTimes> TakeTimes() { return std::move(times_); }

 private:
  const std::function<void()>& on_token_;
  const int64_t start_;
  std::vector<RequestTimes> times_;  // written by the engine's thread, read once all have ended
  std::mutex mutex_;
  std::condition_variable wake_;
  size_t ended_ = 0;
  Status fault_;
};

/// The records of all steps from `first` on, once the engine has counted `generated` tokens: a step
/// is recorded only after its last token was delivered.
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

}  // namespace

Expected<ClosedRun> RunClosed(Engine& engine, const Workload& workload,
                              const std::function<void()>& on_token) {
  const EngineStats before = engine.Stats();
  std::vector<RequestId> ids;
  Recorder recorder(workload, on_token);
  Status refused;
  for (size_t i = 0; i < workload.items.size(); ++i) {
    GenerateRequest request;
    request.prompt = workload.items[i].prompt;
    request.max_new_tokens = workload.items[i].budget;
    request.ignore_end_of_text = true;
    request.sink = [&recorder, i](const StreamUpdate& update) { recorder.Update(i, update); };
    Expected<RequestId> id = engine.Submit(std::move(request));
    if (!id.ok()) {
      refused = id.status().WithContext(fmt::format("request {} of {}", i, workload.name));
      break;
    }
    ids.push_back(*id);
  }
  const auto cancel = [&] {
    for (const RequestId id : ids) engine.Cancel(id);
  };
  if (!refused.ok()) cancel();
  recorder.Wait(ids.size(), cancel);
  DECANT_RETURN_IF_ERROR(refused);
  if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
  DECANT_RETURN_IF_ERROR(recorder.fault());

  ClosedRun run;
  run.requests = recorder.TakeTimes();
  for (const RequestTimes& times : run.requests) {
    run.wall_seconds = std::max(run.wall_seconds, times.last_token);
  }
  DECANT_ASSIGN_OR_RETURN(
      run.steps,
      StepsSince(engine, before.steps(),
                 before.generated_tokens + static_cast<uint64_t>(workload.budget_tokens())));
  return run;
}

}  // namespace decant
