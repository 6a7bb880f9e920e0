#include "bench/attention_batch.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"

namespace decant {

DecoderShape AttentionOnlyShape(int32_t layers, int32_t heads, int32_t kv_heads, int32_t head_dim,
                                int32_t max_positions) {
  DecoderShape shape;
  shape.layers = layers;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = head_dim;
  shape.hidden = shape.intermediate = shape.vocab = 64;
  shape.max_positions = max_positions;
  shape.norm_epsilon = 1e-5F;
  shape.rope_frequencies.assign(head_dim / 2, 0.0F);
  return shape;
}

int32_t PagesOf(std::span<const CaseRow> rows, int32_t page_size) {
  int32_t pages = 0;
  for (const CaseRow& row : rows) pages += CeilDiv(row.context_len, page_size);
  return pages;
}

std::vector<std::vector<int32_t>> ShuffledTables(std::span<const CaseRow> rows, int32_t page_size,
                                                 int32_t pages, uint64_t seed) {
  std::vector<int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  const CounterRng rng(seed);
  for (int32_t i = pages - 1; i > 0; --i) std::swap(order[i], order[rng.Below(i, i + 1)]);
  DECANT_CHECK(PagesOf(rows, page_size) <= pages, "{} pages are too few", pages);
  std::vector<std::vector<int32_t>> tables;
  auto next = order.begin();
  for (const CaseRow& row : rows) {
    const auto end = next + CeilDiv(row.context_len, page_size);
    tables.emplace_back(next, end);
    next = end;
  }
  return tables;
}

AttentionBatch::AttentionBatch(std::span<const CaseRow> rows,
                               std::vector<std::vector<int32_t>> tables)
    : tables_(std::move(tables)) {
  DECANT_CHECK(rows.size() == tables_.size(), "{} block tables for {} rows", tables_.size(),
               rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const CaseRow& row = rows[r];
    const auto index = static_cast<int32_t>(r);
    rows_.push_back({.slot = index,
                     .query_start = static_cast<int32_t>(positions_.size()),
                     .query_len = row.query_len,
                     .context_len = row.context_len,
                     .pages = tables_[r]});
    for (int32_t i = 0; i < row.query_len; ++i) {
      positions_.push_back(row.context_len - row.query_len + i);
      token_rows_.push_back(index);
    }
  }
  token_ids_.assign(positions_.size(), 0);
  step_ = {
      .token_ids = token_ids_, .positions = positions_, .token_rows = token_rows_, .rows = rows_};
}

}  // namespace decant
