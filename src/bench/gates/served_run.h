#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "bench/workload.h"
#include "engine/load_engine.h"

namespace decant {

/// Loads a model to serve: LoadEngine, with whatever a command shows meanwhile.
using EngineLoader =
    std::function<Expected<std::unique_ptr<ServedModel>>(const EngineOptions& options)>;

/// What one request of a gate got.
struct ServedTokens {
  std::vector<Token> tokens{};
  std::vector<float> gaps{};       ///< Per token, between the two largest logits, where recorded.
  std::vector<uint64_t> hashes{};  ///< Per token, of the bits of all its logits, where recorded.
};

enum class LogitGaps { kIgnored, kRecorded };

/// An engine whose answers a gate compares with another's.
class GateEngine {
 public:
  /// Told of each step before its tokens are known outside, on a thread of the engine's.
  using StepObserver = std::function<void(const StepPlan& plan)>;

  /// `options.logits_observer` must be empty.
  static Expected<std::unique_ptr<GateEngine>> Load(const EngineLoader& loader,
                                                    EngineOptions options, LogitGaps gaps,
                                                    StepObserver observer = nullptr);

  /// Hands over all requests between two steps and returns what each got, greedily and to the end
  /// of its budget. The schedule, and so the make-up of every batch, depends on the requests only.
  /// Errors: what Submit refuses, with the request's number; internal, where a request ended
  /// otherwise than by its budget; cancelled, after an interrupt, with nothing left running.
  Expected<std::vector<ServedTokens>> Serve(std::span<const WorkItem> items);

  /// Whether `status`, which Serve returned, is that of a request that failed by itself, its logits
  /// no numbers, while the engine goes on.
  bool FailedByItself(const Status& status) const;

  ServedModel& model() { return *model_; }

 private:
  /// What the engine's thread that observes logits writes while requests run.
  struct Recorder {
    LogitGaps gaps = LogitGaps::kIgnored;
    StepObserver observer{};
    std::mutex mutex{};
    std::unordered_map<RequestId, ServedTokens> requests{};  ///< Guarded by mutex; no tokens.

    void Observe(const StepPlan& plan, TensorView view);
  };

  GateEngine() = default;

  std::unique_ptr<Recorder> recorder_;  // outlives the engine's threads
  std::unique_ptr<ServedModel> model_;
};

}  // namespace decant
