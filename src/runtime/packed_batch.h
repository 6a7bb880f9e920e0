#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/step_batch.h"
#include "sched/step_plan.h"

namespace decant {

/// A plan as the operations take it: the tokens of all rows in one row of numbers, decode tokens
/// before prompt chunks. Keeps its memory from step to step.
class PackedBatch {
 public:
  /// `last_token(row)`: the id to compute for a row whose query is the token it sampled last.
  /// Holds until the next call; block tables stay where the plan has them.
  const StepBatch& Pack(const StepPlan& plan, const std::function<Token(int32_t row)>& last_token);

  const StepBatch& batch() const { return batch_; }
  /// The batch's tokens whose logits are sampled, in plan order.
  std::span<const int32_t> logits_tokens() const { return logits_tokens_; }
  /// Where the tokens of plan row `index` begin in the batch.
  int32_t query_start(size_t index) const { return query_starts_[index]; }

 private:
  void PackRow(const PlannedRow& row, const std::function<Token(int32_t row)>& last_token);

  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> token_rows_;
  std::vector<BatchRow> rows_;
  std::vector<int32_t> query_starts_;  // by plan row
  std::vector<int32_t> logits_tokens_;
  StepBatch batch_;
};

}  // namespace decant
