#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "ops/cuda/device.h"

namespace decant {

/// What the launches of a step's graph depend on, beside the contents of device memory.
struct StepKind {
  int32_t tokens = 0;  ///< As padded.
  int32_t table_stride = 0;
  bool decodes = false;  ///< Whether there are decode tokens.
  bool prompts = false;  ///< Whether there are prompt chunks.
  int32_t samples = 0;   ///< Tokens of the head, as padded; 0: it is not in the graph.

  bool operator==(const StepKind& other) const {
    return tokens == other.tokens && table_stride == other.table_stride &&
           decodes == other.decodes && prompts == other.prompts && samples == other.samples;
  }
};

/// What became of the calls between Begin and Finish.
enum class StepCalls {
  kQueued,  ///< They are queued, one by one or as a graph.
  kLost,    ///< They could not be recorded. Nothing of them is queued: they must be made again.
};

/// Graphs of steps. The first step of a kind is queued kernel by kernel, so that what is
/// loaded or chosen at first use is there when the second is recorded; from then on the kind is
/// launched as one. The kinds that were used last are kept. Where recording fails, a warning says
/// so, once, and from then on kernels are queued one by one.
///
/// A Graph has static Status BeginRecording(const Stream&) and Expected<Graph> EndRecording(const
/// Stream&), Status Launch(const Stream&), int64_t bytes().
template <typename Graph, typename Stream>
class StepGraphsOf {
 public:
  static constexpr size_t kMost = 64;  ///< Kinds that are kept.

  StepGraphsOf() { kept_.reserve(kMost); }

  /// Begins a step's layers, unless recording failed before.
  void Begin(const StepKind& kind, const Stream& stream) {
    DECANT_CHECK(state_ == State::kIdle, "a step of {} tokens begun inside another", kind.tokens);
    if (failed_) return;
    kind_ = kind;
    Kept* const found = Find(kind);
    if (found == nullptr) return Keep();
    found->used = ++uses_;
    if (found->graph) {
      state_ = State::kReplaying;
      return;
    }
    watch_.Restart();
    if (const Status status = Graph::BeginRecording(stream); !status.ok()) return Fail(status);
    state_ = State::kRecording;
  }
  /// Whether a graph stands for what would be queued now: it must not be.
  bool replays() const { return state_ == State::kReplaying; }
  bool records() const { return state_ == State::kRecording; }

  /// Launches what was recorded, or found; `calls`: what the calls since Begin came to. Errors: a
  /// launch that failed.
  Expected<StepCalls> Finish(const Status& calls, const Stream& stream) {
    const State state = std::exchange(state_, State::kIdle);
    if (state == State::kIdle) return StepCalls::kQueued;
    if (state == State::kRecording) {
      Expected<Graph> graph = Graph::EndRecording(stream);
      if (!calls.ok() || !graph.ok()) {
        Fail(calls.ok() ? graph.status() : calls);
        return StepCalls::kLost;
      }
      Find(kind_)->graph = std::move(graph).value();
      TellOfGraph();
    }
    DECANT_RETURN_IF_ERROR(Find(kind_)->graph->Launch(stream));
    return StepCalls::kQueued;
  }

  /// Forgets all graphs: what they refer to changes.
  void Clear() { kept_.clear(); }
  size_t size() const {
    return std::ranges::count_if(kept_, [](const Kept& kept) { return kept.graph.has_value(); });
  }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const Kept& kept : kept_) bytes += kept.graph ? kept.graph->bytes() : 0;
    return bytes;
  }

 private:
  enum class State { kIdle, kRecording, kReplaying };
  struct Kept {
    StepKind kind;
    uint64_t used = 0;             ///< The larger, the later.
    std::optional<Graph> graph{};  ///< From the second step on.
  };

  Kept* Find(const StepKind& kind) {
    const auto found =
        std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.kind == kind; });
    return found == kept_.end() ? nullptr : &*found;
  }

  void Keep() {
    if (kept_.size() == kMost) kept_.erase(std::ranges::min_element(kept_, {}, &Kept::used));
    kept_.push_back({.kind = kind_, .used = ++uses_});
  }

  void TellOfGraph() const {
    LogDebug(
        "a graph of a step of {} tokens ({}{}{}; {} sampled) in {:.1f} ms; {} graphs hold {:.1f} "
        "MiB",
        kind_.tokens, kind_.decodes ? "decode" : "", kind_.decodes && kind_.prompts ? ", " : "",
        kind_.prompts ? "prompts" : "", kind_.samples, watch_.Seconds() * 1e3, size(),
        static_cast<double>(bytes()) / (1 << 20));
  }

  void Fail(const Status& status) {
    failed_ = true;
    LogWarning("steps are not recorded as graphs any more, their kernels are queued one by one: {}",
               status.message());
  }

  std::vector<Kept> kept_;
  StepKind kind_;
  State state_ = State::kIdle;
  Stopwatch watch_;
  uint64_t uses_ = 0;
  bool failed_ = false;
};

using StepGraphs = StepGraphsOf<CudaGraph, CudaStream>;

}  // namespace decant
