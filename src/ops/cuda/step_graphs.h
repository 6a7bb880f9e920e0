#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/status.h"
#include "ops/cuda/device.h"

namespace decant {

/// Graphs of steps' layers: the kernels of a kind of step are queued one by one the first time, and
/// recorded meanwhile; from then on they are launched as one.
class StepGraphs {
 public:
  /// What the launches of a step's kernels depend on beside the contents of device memory.
  struct Key {
    int32_t tokens = 0;
    int32_t table_stride = 0;
    bool operator<(const Key& other) const {
      return std::pair(tokens, table_stride) < std::pair(other.tokens, other.table_stride);
    }
  };

  /// Begins a step's layers. Errors: CUDA's.
  Status Begin(const Key& key, const CudaStream& stream);
  /// Whether a graph stands for what would be queued now: it must not be.
  bool replays() const { return state_ == State::kReplaying; }
  /// Launches what was recorded, or found. Nothing if no layers were begun, or they are launched.
  /// Errors: CUDA's.
  Status Finish(const CudaStream& stream);

  /// Forgets all graphs: what they refer to changes.
  void Clear() { graphs_.clear(); }
  size_t size() const { return graphs_.size(); }

 private:
  enum class State { kIdle, kRecording, kReplaying };

  std::map<Key, CudaGraph> graphs_;
  Key key_;
  State state_ = State::kIdle;
};

}  // namespace decant
