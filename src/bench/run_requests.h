#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "bench/workload.h"
#include "engine/engine.h"

namespace decant {

/// The request for a benchmark's item: greedy, its budget used to the end.
GenerateRequest BenchRequest(const WorkItem& item, StreamSink sink);

/// Counts the requests of a run as they end, for the thread that waits for them. It must outlive
/// every sink that calls it.
class RunEndings {
 public:
  /// Takes the last update of request number `index` of the run, on the engine's thread. An end
  /// other than by the budget is the run's fault.
  void Ended(size_t index, const StreamUpdate& update);

  /// Sleeps until `time` (SteadyNanos). False, at once, after an interrupt or a fault.
  bool SleepUntil(int64_t time);

  /// Waits until `count` requests have ended; calls `cancel` once if the person interrupts.
  void Wait(size_t count, const std::function<void()>& cancel);

  /// Cancelled after an interrupt, else the first fault. Once all that was submitted has ended.
  Status Outcome() const;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  size_t ended_ = 0;
  Status fault_;
};

/// Records of the engine's steps from number `first` on, once it has counted `generated` tokens: a
/// step is recorded only after its last token was delivered. Internal error: its history is too
/// short.
Expected<std::vector<StepRecord>> StepsSince(const Engine& engine, uint64_t first,
                                             uint64_t generated);

}  // namespace decant
