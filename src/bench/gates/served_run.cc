#include "bench/gates/served_run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <limits>

#include "base/check.h"
#include "base/interrupt.h"

namespace decant {
namespace {

/// Between the two largest values; NaN where one of them is.
float GapOfLargest(std::span<const float> values) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (const float value : values) {
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    } else if (!(value <= second)) {
      return value;
    }
  }
  return first - second;
}

/// Of the bits of all values: two rows that differ have different ones, but for a chance of one in
/// 2^64 or so.
uint64_t HashBits(std::span<const float> values) {
  uint64_t hash = 0;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash;
}

/// All requests of one Serve.
class Batch {
 public:
  Batch(Engine& engine, std::span<const WorkItem> items)
      : engine_(engine), items_(items), ids_(items.size()), served_(items.size()) {}

  /// Sends a request of one token ahead. Its sink runs on the loop's thread, which takes arrivals
  /// between steps only: what the sink submits, the scheduler sees all at once.
  Status Start() {
    GenerateRequest request;
    request.prompt = {items_.front().prompt.front()};
    request.max_new_tokens = 1;
    request.ignore_end_of_text = true;
    request.sink = [this](const StreamUpdate& update) {
      if (update.finish) SubmitAll(update);
    };
    return engine_.Submit(std::move(request)).status();
  }

  /// Waits for the last request to end.
  Status Finish() {
    constexpr std::chrono::milliseconds kLookForInterrupts(100);
    std::unique_lock lock(mutex_);
    bool cancelled = false;
    while (!ended_.wait_for(lock, kLookForInterrupts,
                            [this] { return submitted_ && running_ == 0; })) {
      if (cancelled || !submitted_ || !InterruptRequested()) continue;
      cancelled = true;
      lock.unlock();
      for (const RequestId id : ids_) engine_.Cancel(id);
      lock.lock();
    }
    if (cancelled) return Error(StatusCode::kCancelled, "interrupted");
    return status_;
  }

  const std::vector<RequestId>& ids() const { return ids_; }
  std::vector<ServedTokens> Take() { return std::move(served_); }

 private:
  void SubmitAll(const StreamUpdate& ahead) {
    Status status = ahead.finish == FinishReason::kBudget ? Status() : ahead.status;
    int32_t accepted = 0;
    for (size_t i = 0; i < items_.size() && status.ok(); ++i) {
      GenerateRequest request;
      request.prompt = items_[i].prompt;
      request.max_new_tokens = items_[i].budget;
      request.ignore_end_of_text = true;
      request.sink = [this, i](const StreamUpdate& update) { Take(i, update); };
      const Expected<RequestId> id = engine_.Submit(std::move(request));
      if (id.ok()) {
        ids_[i] = *id;
        ++accepted;
      } else {
        status = id.status().WithContext(fmt::format("request {}", i));
      }
    }
    const std::lock_guard lock(mutex_);
    submitted_ = true;
    running_ += accepted;
    if (!status.ok()) status_ = std::move(status);
    ended_.notify_all();
  }

  void Take(size_t index, const StreamUpdate& update) {
    if (update.token) served_[index].tokens.push_back(*update.token);
    if (!update.finish) return;
    const std::lock_guard lock(mutex_);
    if (*update.finish != FinishReason::kBudget && status_.ok()) {
      status_ = update.status.ok() ? Error(StatusCode::kInternal, "request {} ended: {}", index,
                                           FinishReasonName(*update.finish))
                                   : update.status;
    }
    --running_;
    ended_.notify_all();
  }

  Engine& engine_;
  std::span<const WorkItem> items_;
  std::vector<RequestId> ids_;        // the loop's thread until submitted_
  std::vector<ServedTokens> served_;  // the loop's thread until all have ended
  std::mutex mutex_;
  std::condition_variable ended_;
  bool submitted_ = false;  // guarded by mutex_
  int32_t running_ = 0;     // guarded by mutex_
  Status status_;           // guarded by mutex_
};

}  // namespace

void GateEngine::Recorder::Observe(const StepPlan& plan, TensorView view) {
  if (observer) observer(plan);
  if (gaps == LogitGaps::kIgnored) return;
  const std::lock_guard lock(mutex);
  int64_t sample = 0;
  for (const PlannedRow& row : plan.rows) {
    if (!row.samples) continue;
    const std::span logits(view.Row<float>(sample), static_cast<size_t>(view.cols));
    ServedTokens& request = requests[row.request];
    request.gaps.push_back(GapOfLargest(logits));
    request.hashes.push_back(HashBits(logits));
    ++sample;
  }
}

Expected<std::unique_ptr<GateEngine>> GateEngine::Load(const EngineLoader& loader,
                                                       EngineOptions options, LogitGaps gaps,
                                                       StepObserver observer) {
  DECANT_CHECK(!options.logits_observer, "the gate observes logits itself");
  std::unique_ptr<GateEngine> engine(new GateEngine());
  engine->recorder_ = std::make_unique<Recorder>();
  engine->recorder_->gaps = gaps;
  engine->recorder_->observer = std::move(observer);
  if (gaps == LogitGaps::kRecorded || engine->recorder_->observer) {
    options.logits_observer = [recorder = engine->recorder_.get()](const StepPlan& plan,
                                                                   TensorView logits) {
      recorder->Observe(plan, logits);
    };
  }
  DECANT_ASSIGN_OR_RETURN(engine->model_, loader(options));
  return engine;
}

bool GateEngine::FailedByItself(const Status& status) const {
  return status.code() == StatusCode::kInternal && model_->engine().Health().ok();
}

Expected<std::vector<ServedTokens>> GateEngine::Serve(std::span<const WorkItem> items) {
  DECANT_CHECK(!items.empty(), "nothing to serve");
  Batch batch(model_->engine(), items);
  DECANT_RETURN_IF_ERROR(batch.Start());
  DECANT_RETURN_IF_ERROR(batch.Finish());
  std::vector<ServedTokens> served = batch.Take();
  if (recorder_->gaps == LogitGaps::kIgnored) return served;
  const std::lock_guard lock(recorder_->mutex);
  for (size_t i = 0; i < items.size(); ++i) {
    ServedTokens& recorded = recorder_->requests[batch.ids()[i]];
    // A row may run one step past its request's end.
    recorded.gaps.resize(served[i].tokens.size(), std::numeric_limits<float>::quiet_NaN());
    recorded.hashes.resize(served[i].tokens.size());
    served[i].gaps = std::move(recorded.gaps);
    served[i].hashes = std::move(recorded.hashes);
  }
  recorder_->requests.clear();
  return served;
}

}  // namespace decant
