#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "ops/ops.h"
#include "runtime/packed_batch.h"
#include "runtime/sampler.h"
#include "sched/step_plan.h"
#include "tensor/tensor_view.h"

namespace decant {

/// Sampling on the host, and what the engine's rows keep for it from step to step.
class HostSampling {
 public:
  /// Log-probabilities of prompts are computed so many positions at a time, so that a chunk's
  /// logits are never held at once.
  static constexpr int32_t kPromptBlock = 32;

  /// Rows are numbered below max_rows.
  explicit HostSampling(int32_t max_rows) : states_(max_rows) {}

  /// The logits [tokens.size(), vocab] of some of the batch's tokens, in host memory until the next
  /// call.
  using HostLogits = std::function<Expected<TensorView>(std::span<const int32_t> tokens)>;

  /// Works out what this step's chunks say about the prompt tokens of requests that asked for it,
  /// on the threads of `ops`. Errors: those of `logits`.
  Status ReportPrompts(const StepPlan& plan, const PackedBatch& packed, Ops& ops,
                       const HostLogits& logits);

  /// Draws a row's next token from its logits [vocab], with what its request asked to be told. May
  /// be called from several threads at once, for different rows.
  SampledToken Sample(const PlannedRow& row, std::span<const float> logits);

  /// A token that was drawn elsewhere, with what its request asked to be told. `logits` are looked
  /// at only where the request wants logprobs. May be called as Sample may.
  SampledToken Report(const PlannedRow& row, Token token, std::span<const float> logits);

  /// The token that Sample drew last for a row.
  Token last_token(int32_t row) const { return states_[row].last_token; }

 private:
  /// A position of a prompt whose log-probabilities were asked for.
  struct PromptPosition {
    int32_t token = 0;  ///< in the batch: whose logits are needed
    Token next = 0;     ///< the prompt token that follows it
    int32_t top = 0;    ///< how many alternatives
    PositionLogprobs* out = nullptr;
  };

  std::vector<PromptPosition> PromptPositions(const StepPlan& plan, const PackedBatch& packed);

  struct RowState {
    Token last_token = 0;
    Sampler sampler{};
    std::vector<PositionLogprobs> prompt_logprobs{};  ///< of the positions computed so far
  };

  std::vector<RowState> states_;  // [max_rows]
};

}  // namespace decant
