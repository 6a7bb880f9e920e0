#pragma once

#include <cstdint>
#include <span>

namespace decant {

/// A token id that only the device knows: what the token's row sampled in the step before. For
/// backends that sample themselves.
inline constexpr int32_t kLastToken = -1;

/// One row's part of a step: its queries are tokens [query_start, query_start + query_len) of the
/// batch, at positions [context_len - query_len, context_len) of its request.
struct BatchRow {
  int32_t slot = 0;  ///< The row's place among the engine's rows.
  int32_t query_start = 0;
  int32_t query_len = 0;
  int32_t context_len = 0;
  std::span<const int32_t>
      pages;  ///< Block table; entry i holds positions [i * page_size, (i + 1) * page_size).
};

/// The packed tokens of a step, as the operations see them. Host memory of the caller's, valid
/// until the step has run.
struct StepBatch {
  std::span<const int32_t> token_ids;   ///< [tokens]
  std::span<const int32_t> positions;   ///< [tokens]
  std::span<const int32_t> token_rows;  ///< [tokens], index into rows
  /// [rows], in order of query_start; decode tokens (query_len 1) before prompt chunks.
  std::span<const BatchRow> rows;

  int32_t tokens() const { return static_cast<int32_t>(token_ids.size()); }
};

/// How much attention over a step's rows has to read and compute.
struct AttentionWork {
  double keys = 0;      ///< Positions read, each once a row.
  double products = 0;  ///< Pairs of a query and a key that it sees.
};

inline AttentionWork CountAttention(std::span<const BatchRow> rows) {
  AttentionWork work;
  for (const BatchRow& row : rows) {
    work.keys += row.context_len;
    // Query i of n sees context - n + i + 1 keys.
    work.products +=
        static_cast<double>(row.query_len) * (row.context_len - (row.query_len - 1) / 2.0);
  }
  return work;
}

}  // namespace decant
