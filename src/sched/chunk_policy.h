#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "sched/step_load.h"
#include "sched/step_time_estimate.h"

namespace decant {

/// The least time that the parts of a step take on a device, in seconds: what it reads and what it
/// computes, which may overlap.
struct StepBalance {
  double weights = 0;   ///< Reading all weights once.
  double position = 0;  ///< Reading K and V of a position.
  double token = 0;     ///< The layers' operations for a token.
  double pair = 0;      ///< Attention's for a pair of a query and a key.
  double logits = 0;    ///< The head's for a row that samples.

  double Reading(const StepLoad& load) const;
  double Computing(const StepLoad& load) const;
};

struct ChunkPolicyConfig {
  int32_t most = 2048;  ///< Prompt tokens a step at most; a multiple of 16.
  /// What a loaded step may take. Absent: chunks end where computing takes as long as reading.
  std::optional<double> max_step_seconds{};
  StepBalance balance{};  ///< Of no use with max_step_seconds.
};

/// Refuses a `most` that is no multiple of 16 from 16 on, and a max_step_seconds that is not above
/// 0 and finite.
Status ValidateChunkPolicy(const ChunkPolicyConfig& config);

/// Chooses how many prompt tokens each step may have, from 16 on in steps of 16. It has no clock:
/// it is told what steps took, and gives the same answers for the same times.
///
/// With max_step_seconds it learns (StepTimeEstimate) and takes the largest chunk whose step should
/// stay below, as a rule 99 of 100; it starts at 16 and never goes above one and a half times the
/// largest chunk seen lately. Where not even 16 tokens stay below, chunks have 16: prompts always
/// go on.
class ChunkPolicy {
 public:
  static constexpr int32_t kGrain = 16;

  /// `config` must be valid.
  explicit ChunkPolicy(const ChunkPolicyConfig& config);

  /// Prompt tokens that the next step may have; at most `most`, and never 0.
  int32_t Choose(const StepOutlook& outlook);

  /// Tells of a step that ran, in order. Steps without prompt tokens are ignored.
  void Observe(const StepLoad& load, double seconds);

  /// The last choice that left prompt tokens for later steps; 0 before there is one.
  int32_t last_binding() const { return last_binding_; }

  /// Whether max_step_seconds cannot be kept: 16 loaded steps in a row took longer with the
  /// smallest chunk. Stays true once it is.
  bool out_of_reach() const { return out_of_reach_; }

 private:
  int32_t Timed(const StepOutlook& outlook, int32_t most) const;
  int32_t Balanced(const StepOutlook& outlook, int32_t most) const;

  const ChunkPolicyConfig config_;
  StepTimeEstimate estimate_;
  int64_t observed_ = 0;
  int32_t too_long_ = 0;  ///< Loaded steps of the smallest chunk in a row that took too long.
  bool out_of_reach_ = false;
  int32_t last_binding_ = 0;
};

}  // namespace decant
