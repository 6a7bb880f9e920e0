#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace decant {

/// A row of a step made up for attention alone: the last `query_len` of `context_len` positions are
/// queries.
struct CaseRow {
  int32_t query_len = 1;
  int32_t context_len = 1;
};

/// The shape of a decoder whose attention alone is used: what else it has is small.
DecoderShape AttentionOnlyShape(int32_t layers, int32_t heads, int32_t kv_heads, int32_t head_dim,
                                int32_t max_positions);

/// Pages that block tables for `rows` take together.
int32_t PagesOf(std::span<const CaseRow> rows, int32_t page_size);

/// Block tables for `rows`: of `pages` pages, in random order, no two rows share one.
std::vector<std::vector<int32_t>> ShuffledTables(std::span<const CaseRow> rows, int32_t page_size,
                                                 int32_t pages, uint64_t seed);

/// A StepBatch and everything it refers to, for calls of Ops that look at its rows only.
class AttentionBatch {
 public:
  /// `rows` with decode tokens first; `tables`: one a row, of its pages and maybe more entries.
  AttentionBatch(std::span<const CaseRow> rows, std::vector<std::vector<int32_t>> tables);
  AttentionBatch(const AttentionBatch&) = delete;
  AttentionBatch& operator=(const AttentionBatch&) = delete;

  const StepBatch& step() const { return step_; }

 private:
  std::vector<std::vector<int32_t>> tables_;
  std::vector<BatchRow> rows_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> token_rows_;
  StepBatch step_;
};

}  // namespace decant
