#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace decant {

using RequestId = uint64_t;
using Token = int32_t;

/// How a request's next token is drawn from its logits. The default is greedy.
struct SamplingParams {
  float temperature = 0.0F;  ///< 0: greedy (the first largest logit); otherwise logits are divided
                             ///< by it. Finite, >= 0.
  int32_t top_k = 0;         ///< Keep the k largest logits; 0: all.
  float top_p = 1.0F;  ///< Keep the smallest set of most likely tokens whose probability reaches
                       ///< top_p; in (0, 1].
  uint64_t seed = 0;   ///< Key of the request's counter-based random numbers.

  bool greedy() const { return temperature == 0.0F; }
};

/// What one row computes in a step. The spans point into the scheduler and stay valid until this
/// step is committed.
struct PlannedRow {
  RequestId request = 0;
  int32_t row = 0;  ///< Place in the batch, in [0, max_batch).
  int32_t query_len =
      0;  ///< Tokens computed in this step; 1: a decode token (or a one-token chunk).
  int32_t context_len = 0;  ///< Positions in the cache once the step has run; the first query is at
                            ///< context_len - query_len.
  bool samples = false;     ///< The logits of the row's last token are sampled.
  /// The chunk's token ids [query_len]; empty when the query is the token that the row sampled
  /// last, which the scheduler may not know yet because the step that samples it is still in
  /// flight.
  std::span<const Token> prompt_tokens;
  std::span<const int32_t> pages;  ///< Block table: the row's pages in order of position; may hold
                                   ///< more than context_len needs.
  SamplingParams sampling;
  uint64_t sample_index =
      0;  ///< How many tokens the request sampled before this one: the counter of its draw.
};

/// The work of one step; host data only.
struct StepPlan {
  uint64_t step = 0;             ///< Counts planned steps from 0.
  std::vector<PlannedRow> rows;  ///< In order of row.
  int32_t prompt_tokens = 0;     ///< Sum of query_len over prompt chunks.
  int32_t decode_tokens = 0;     ///< Rows whose query is a sampled token.

  bool empty() const { return rows.empty(); }
  int32_t tokens() const { return prompt_tokens + decode_tokens; }
};

/// A token sampled for a row of a step.
struct SampledToken {
  RequestId request = 0;
  int32_t row = 0;
  Token token = 0;
};

/// What a step produced: one token for each planned row that samples, in plan order.
struct StepResult {
  uint64_t step = 0;
  std::vector<SampledToken> tokens;
};

}  // namespace decant
