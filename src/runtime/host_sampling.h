#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/packed_batch.h"
#include "runtime/sampler.h"
#include "sched/step_plan.h"

namespace decant {

/// Sampling on the host, and what the engine's rows keep for it from step to step.
class HostSampling {
 public:
  /// Log-probabilities of prompts are computed so many positions at a time, so that a chunk's
  /// logits are never held at once.
  static constexpr int32_t kPromptBlock = 32;

  /// Rows are numbered below max_rows.
  explicit HostSampling(int32_t max_rows) : states_(max_rows) {}

  /// A position of a prompt whose log-probabilities were asked for.
  struct PromptPosition {
    int32_t token = 0;  ///< in the batch: whose logits are needed
    Token next = 0;     ///< the prompt token that follows it
    int32_t top = 0;    ///< how many alternatives
    PositionLogprobs* out = nullptr;
  };

  /// The positions of this step's chunks that say something about prompt tokens. They hold until
  /// the next call.
  std::vector<PromptPosition> PromptPositions(const StepPlan& plan, const PackedBatch& packed);

  /// Takes the logits [vocab] of a position. May be called from several threads at once, for
  /// different positions.
  static void ReportPrompt(const PromptPosition& position, std::span<const float> logits);

  /// Draws a row's next token from its logits [vocab], with what its request asked to be told. May
  /// be called from several threads at once, for different rows.
  SampledToken Sample(const PlannedRow& row, std::span<const float> logits);

  /// The token that Sample drew last for a row.
  Token last_token(int32_t row) const { return states_[row].last_token; }

 private:
  struct RowState {
    Token last_token = 0;
    Sampler sampler{};
    std::vector<PositionLogprobs> prompt_logprobs{};  ///< of the positions computed so far
  };

  std::vector<RowState> states_;  // [max_rows]
};

}  // namespace decant
