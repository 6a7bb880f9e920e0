#include "bench/closed_run.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "bench/run_requests.h"

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
      RequestTimes& times = times_[index];
      if (times.tokens.empty()) {
        times.first_token = now;
      } else {
        times.gaps.push_back(now - times.last_token);
      }
      times.last_token = now;
      times.tokens.push_back(*update.token);
      on_token_();
    }
    if (update.finish) endings_.Ended(index, update);
  }

  RunEndings& endings() { return endings_; }
  std::vector<RequestTimes> TakeTimes() { return std::move(times_); }

 private:
  const std::function<void()>& on_token_;
  const int64_t start_;
  std::vector<RequestTimes> times_;  // written by the engine's thread, read once all have ended
  RunEndings endings_;
};

}  // namespace

Expected<ClosedRun> RunClosed(Engine& engine, const Workload& workload,
                              const std::function<void()>& on_token) {
  const EngineStats before = engine.Stats();
  std::vector<RequestId> ids;
  Recorder recorder(workload, on_token);
  Status refused;
  for (size_t i = 0; i < workload.items.size(); ++i) {
    Expected<RequestId> id =
        engine.Submit(BenchRequest(workload.items[i], [&recorder, i](const StreamUpdate& update) {
          recorder.Update(i, update);
        }));
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
  recorder.endings().Wait(ids.size(), cancel);
  DECANT_RETURN_IF_ERROR(refused);
  DECANT_RETURN_IF_ERROR(recorder.endings().Outcome());

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
