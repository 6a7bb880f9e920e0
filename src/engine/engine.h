#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "cache/page_pool.h"
#include "engine/statistics.h"
#include "engine/text_stream.h"
#include "runtime/step_runner.h"
#include "sched/chunk_policy.h"
#include "sched/scheduler.h"
#include "text/tokenizer.h"

namespace decant {

/// What a request gets: for each of its samples one update a token, and exactly one with a finish
/// reason, the sample's last.
struct StreamUpdate {
  RequestId request = 0;
  int32_t sample = 0;  ///< In [0, GenerateRequest::samples).
  /// Absent where no token caused the update: cancelled, failed. With kEndOfText: the end-of-text
  /// id, which is no part of the text.
  std::optional<Token> token{};
  /// Text that is certain by now: whole code points, and never a part of a stop string. Empty
  /// without a tokenizer. Valid during the call.
  std::string_view text{};
  /// Of `token`, if the request asked for logprobs; null if not. Valid during the call.
  const PositionLogprobs* logprobs = nullptr;
  /// With the first token of sample 0 of a request that asked for prompt_logprobs: entry i is for
  /// prompt token i + 1 (the first has nothing before it). Valid during the call.
  std::span<const PositionLogprobs> prompt_logprobs{};
  std::optional<FinishReason> finish{};
  Status status{};  ///< With kFailed: the device's error, or why this request alone failed.
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;  ///< By this sample, this one included.
  int64_t time = 0;              ///< SteadyNanos when the step's result came, or of the ending.
  /// SteadyNanos when the request's first step was planned; absent for one that ended in the queue.
  std::optional<int64_t> admitted_time{};
};

/// Called on the engine's loop thread, without a lock held. It may call Submit, Cancel and the
/// inspectors of the engine, and must not block (every request waits meanwhile), throw, or call
/// Drain, Stop or the destructor.
using StreamSink = std::function<void(const StreamUpdate&)>;

/// A prompt and how to go on from it.
struct GenerateRequest {
  std::vector<Token> prompt{};
  int32_t max_new_tokens = 0;  ///< The budget of each sample.
  /// How many continuations: 1 to max_batch. They run side by side and end one by one. Number 0
  /// gets what a request of one would; the others draw from seeds of their own (SampleSeed).
  int32_t samples = 1;
  SamplingParams sampling{};
  /// The text ends before the first of these that appears in it.
  std::vector<std::string> stop_strings{};
  /// Goes on over end-of-text tokens, for benchmarks that need the whole budget.
  bool ignore_end_of_text = false;
  StreamSink sink{};
};

struct EngineConfig {
  SchedulerConfig scheduler{};
  /// Chooses each step's chunk, up to scheduler.chunk_tokens; absent: always that many.
  std::optional<ChunkPolicyConfig> chunk_policy{};
  int32_t num_pages = 0;
  int32_t page_size = 64;
  std::vector<Token> end_of_text{};        ///< Ids that end a request.
  size_t step_history = 65536;             ///< How many StepRecords are kept.
  PagePool::FreeObserver free_observer{};  ///< For gates; called on the loop thread.
};

/// Serves requests through one loop thread, which alone touches the scheduler, the pool, the step
/// runner and the requests' texts. All other threads leave requests and cancellations in an inbox,
/// which the loop empties before each step. While step n runs, the loop plans and launches step
/// n + 1; then it waits for n and delivers its tokens.
///
/// Submit, Cancel and what inspects (Health, Stats, Steps, StepsSince, Rows) may be called from any
/// thread, sinks included; Drain and Stop from any but the loop thread.
class Engine {
 public:
  /// Starts the loop. `tokenizer` turns tokens into text; without one, updates carry tokens only
  /// and stop strings are refused. Invalid argument: the config names what is wrong.
  static Expected<std::unique_ptr<Engine>> Create(EngineConfig config,
                                                  std::unique_ptr<StepRunner> runner,
                                                  std::shared_ptr<const Tokenizer> tokenizer);
  ~Engine();  ///< Stop.
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request behind all submitted before. The sink may be called before this returns, and
  /// is called if and only if an id is returned. Errors: what Scheduler::Validate refuses; invalid
  /// argument for what StopMatcher::Create refuses, stop strings without a tokenizer, or no sink;
  /// failed precondition once the engine drains, has stopped or has failed.
  Expected<RequestId> Submit(GenerateRequest request);

  /// Asks for a request's end; its sink then gets kCancelled for every sample that has not ended
  /// otherwise before the loop comes to it. Ids that are unknown or ended are ignored.
  void Cancel(RequestId id);

  /// Refuses new requests and returns when all accepted ones have ended, their sinks are gone and
  /// their steps are counted.
  void Drain();

  /// Refuses new requests, cancels all accepted ones and ends the loop; what was launched is waited
  /// for. May be called more than once.
  void Stop();

  /// Ok while requests are accepted; otherwise why they are not.
  Status Health() const;

  /// Steps, their tokens and the samples that end with them count once all of the step's tokens are
  /// delivered: a sample runs or waits until then.
  EngineStats Stats() const;

  /// Records of the last steps, oldest first; numbers that are missing fell out of the history.
  std::vector<StepRecord> Steps() const;

  /// Of these, the oldest `most` whose number is at least `step`; for callers that come again.
  std::vector<StepRecord> StepsSince(uint64_t step, size_t most) const;

  /// How far the running samples were after the last step, in order of row.
  std::vector<RowProgress> Rows() const;

 private:
  /// How far a sample of a request is.
  struct SampleStream {
    std::optional<TextStream> text;
    int32_t generated_tokens = 0;
    bool ended = false;
  };

  /// A request's way back to its caller.
  struct Stream {
    StreamSink sink;
    int32_t prompt_tokens = 0;
    std::vector<SampleStream> samples;
    int32_t alive = 0;  ///< Samples not ended.
    std::optional<int64_t> admitted_time;
  };

  struct Arrival {
    Request request;
    Stream stream;
  };

  /// A launched step.
  struct Flight {
    Ticket ticket;
    int64_t launched_at = 0;
    StepLoad load{};
    StepRecord record{};
  };

  Engine(EngineConfig config, std::unique_ptr<StepRunner> runner,
         std::shared_ptr<const Tokenizer> tokenizer);

  Expected<Arrival> MakeArrival(GenerateRequest request) const;

  // The loop's thread only.
  void Loop();
  bool Receive();
  Status LaunchNext();
  const StepPlan& PlanNext();
  void TellChunkPolicy(const StepLoad& load, double seconds);
  void NoteAdmissions(const StepPlan& plan, int64_t time);
  int32_t PagesInUse() const { return pool_.num_pages() - pool_.free_pages(); }
  Status CompleteOldest();
  void EndFailed(const RequestFailure& failure);
  void Deliver(const TokenEvent& event, int64_t time);
  Stream& FindStream(RequestId id);
  void Send(StreamUpdate update);
  void SendEnd(RequestId id, FinishReason reason, const Status& status);
  void EndAll(FinishReason reason, const Status& status);
  void Fail(const Status& status);
  void Publish();

  const EngineConfig config_;
  const std::shared_ptr<const Tokenizer> tokenizer_;

  // The loop's thread only; Scheduler::Validate may be called by all.
  std::unique_ptr<StepRunner> runner_;
  PagePool pool_;
  Scheduler scheduler_;
  std::optional<ChunkPolicy> chunk_policy_;
  bool told_out_of_reach_ = false;
  std::unordered_map<RequestId, Stream> streams_;
  std::vector<Flight> flights_;                   ///< Launched and not waited for, oldest first.
  StepResult result_;                             ///< Of the step completed last.
  std::array<uint64_t, kFinishReasons> ended_{};  ///< Samples whose end Stats does not know yet.
  int64_t last_step_end_ = 0;
  std::vector<Arrival> received_arrivals_;
  std::vector<RequestId> received_cancels_;

  mutable std::mutex mutex_;  ///< Guards what follows, up to history_; not held while a sink runs.
  std::condition_variable wake_;     ///< The inbox has something, or stop_ is set.
  std::condition_variable drained_;  ///< resting_ is set.
  std::vector<Arrival> arrivals_;
  std::vector<RequestId> cancels_;
  Status refusal_;  ///< Why no request is accepted any more; ok: they are.
  bool stop_ = false;
  bool resting_ = false;  ///< The loop has nothing to do.
  RequestId next_id_ = 1;
  int32_t alive_ = 0;  ///< Samples accepted and not known to have ended.
  EngineStats stats_;
  std::vector<RowProgress> rows_;
  StepHistory history_;

  std::mutex join_mutex_;
  std::thread thread_;
  std::thread::id loop_id_;
};

}  // namespace decant
