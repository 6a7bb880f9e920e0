#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "model/decoder_weights.h"
#include "ops/ops.h"
#include "runtime/host_sampling.h"
#include "runtime/logits_observer.h"
#include "runtime/packed_batch.h"
#include "runtime/step_runner.h"

namespace decant {

/// Steps of a model on the CPU: packs a plan into a batch, runs Forward, samples. A thread of its
/// own does so, so that the caller plans the next step meanwhile; it is the only one that uses
/// `ops`.
class ForwardRunner : public StepRunner {
 public:
  /// `ops` and `weights` must outlive the runner. Rows are numbered below max_rows. `ops` must give
  /// the logits of max(max_rows, HostSampling::kPromptBlock) tokens at a time. The observer is
  /// called on the runner's thread.
  ForwardRunner(Ops& ops, const DecoderWeights& weights, int32_t max_rows,
                LogitsObserver observer = nullptr);
  ~ForwardRunner() override;

  Expected<Ticket> Launch(const StepPlan& plan) override;
  Status Wait(Ticket ticket, StepResult& result) override;

 private:
  void ThreadLoop();
  StepResult RunStep(const StepPlan& plan);

  Ops& ops_;
  const DecoderWeights& weights_;
  LogitsObserver observer_;

  // Used by the runner's thread only.
  HostSampling sampling_;
  PackedBatch packed_;
  std::optional<int64_t> last_end_;  ///< SteadyNanos when the last step was done.

  std::mutex mutex_;
  std::condition_variable launched_;
  std::condition_variable finished_;
  std::deque<const StepPlan*> queue_;  // guarded by mutex_
  std::deque<StepResult> results_;     // guarded by mutex_
  bool stop_ = false;                  // guarded by mutex_
  std::thread thread_;
};

}  // namespace decant
