#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/request.h"

namespace decant {

/// What a step was and where its time went, in seconds. The loop launches a step before it waits
/// for the one before, so the host's part of a step runs while the device is busy with another.
struct StepRecord {
  uint64_t step = 0;
  int32_t prompt_tokens = 0;
  int32_t decode_tokens = 0;
  int32_t rows = 0;
  int64_t cached_tokens = 0;  ///< Context lengths of the rows, added up.
  int32_t pages_in_use = 0;   ///< Once its requests are admitted; a shared page counts once.
  double plan = 0;            ///< Scheduler::Next.
  double launch = 0;          ///< StepRunner::Launch.
  double wait = 0;            ///< Blocked in StepRunner::Wait.
  double deliver = 0;         ///< Scheduler::Commit, text and sinks.
  int64_t begin = 0;          ///< SteadyNanos when planning began.
  int64_t end = 0;            ///< SteadyNanos when its result came.
  /// From the launch, or from the end of the step before where that came later, to the end: the
  /// device's time for this step, as far as the host can see.
  double duration = 0;
  double device = 0;     ///< What the step took where it ran, as its StepResult says.
  bool follows = false;  ///< Launched while the step before was in flight: there was work.
  /// How long the device had done nothing when a step that follows began, as its StepResult says.
  double idle = 0;
  double bytes = 0;       ///< What the step had to read, as its StepResult says.
  double operations = 0;  ///< What it had to compute.

  /// A pure decode step has no prompt chunks; a loaded one has.
  bool pure_decode() const { return prompt_tokens == 0; }
  /// The loop thread's own work.
  double host() const { return plan + launch + deliver; }
};

/// The last records, oldest first. Adding one takes the same time however many there are, and up to
/// kReady of them take no memory that was not there from the start.
class StepHistory {
 public:
  static constexpr size_t kReady = 65536;

  explicit StepHistory(size_t capacity);

  void Add(const StepRecord& record);
  std::vector<StepRecord> Records() const { return Slice(0, records_.size()); }

  /// The oldest `most` records whose number is at least `step`.
  std::vector<StepRecord> Since(uint64_t step, size_t most) const;

 private:
  /// Record number i from the oldest.
  const StepRecord& At(size_t i) const { return records_[(oldest_ + i) % records_.size()]; }
  /// `count` records from number `first` on.
  std::vector<StepRecord> Slice(size_t first, size_t count) const;

  size_t capacity_;
  std::vector<StepRecord> records_;  ///< A ring once there are `capacity_`.
  size_t oldest_ = 0;
};

/// Counts since the engine started, and how things stand now. A request of n samples counts n times
/// where samples are counted; positions that they share are computed and counted once.
struct EngineStats {
  uint64_t pure_decode_steps = 0;
  uint64_t loaded_steps = 0;
  uint64_t prompt_tokens = 0;                       ///< Computed in prompt chunks.
  uint64_t generated_tokens = 0;                    ///< Delivered to callers.
  uint64_t accepted = 0;                            ///< Samples.
  std::array<uint64_t, kFinishReasons> finished{};  ///< Samples, by FinishReason.
  int32_t waiting = 0;                              ///< Samples.
  int32_t running = 0;                              ///< Samples, each in a row of its own.
  int32_t pages_in_use = 0;                         ///< A shared one counts once.
  int32_t num_pages = 0;
  /// Prompt tokens that a step may have: where the engine chooses them, those of the last step that
  /// left prompt tokens for later, 0 before there is one.
  int32_t chunk_tokens = 0;

  uint64_t steps() const { return pure_decode_steps + loaded_steps; }
  uint64_t count(FinishReason reason) const { return finished[static_cast<size_t>(reason)]; }
};

}  // namespace decant
