#include "runtime/packed_batch.h"

#include "base/check.h"

namespace decant {

const StepBatch& PackedBatch::Pack(const StepPlan& plan,
                                   const std::function<Token(int32_t row)>& last_token) {
  token_ids_.clear();
  positions_.clear();
  token_rows_.clear();
  rows_.clear();
  logits_tokens_.clear();
  query_starts_.resize(plan.rows.size());
  for (const bool chunks : {false, true}) {
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      if ((plan.rows[i].query_len > 1) != chunks) continue;
      query_starts_[i] = static_cast<int32_t>(token_ids_.size());
      PackRow(plan.rows[i], last_token);
    }
  }
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    if (plan.rows[i].samples) {
      logits_tokens_.push_back(query_starts_[i] + plan.rows[i].query_len - 1);
    }
  }
  batch_ = StepBatch{
      .token_ids = token_ids_, .positions = positions_, .token_rows = token_rows_, .rows = rows_};
  return batch_;
}

void PackedBatch::PackRow(const PlannedRow& row,
                          const std::function<Token(int32_t row)>& last_token) {
  const auto index = static_cast<int32_t>(rows_.size());
  rows_.push_back(BatchRow{.slot = row.row,
                           .query_start = static_cast<int32_t>(token_ids_.size()),
                           .query_len = row.query_len,
                           .context_len = row.context_len,
                           .pages = row.pages});
  if (row.prompt_tokens.empty()) {
    DECANT_CHECK(row.query_len == 1, "a row without prompt tokens computes one");
    token_ids_.push_back(last_token(row.row));
  } else {
    token_ids_.insert(token_ids_.end(), row.prompt_tokens.begin(), row.prompt_tokens.end());
  }
  for (int32_t i = 0; i < row.query_len; ++i) {
    positions_.push_back(row.context_len - row.query_len + i);
    token_rows_.push_back(index);
  }
}

}  // namespace decant
