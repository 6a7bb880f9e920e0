#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace decant {

using RequestId = uint64_t;
using Token = int32_t;

/// How a request's next token is drawn from its logits. The default is greedy.
struct SamplingParams {
  /// 0: greedy (the first largest logit); otherwise logits are divided by it. Finite, >= 0.
  float temperature = 0.0F;
  /// Keep the k largest logits; 0: all.
  int32_t top_k = 0;
  /// Keep the smallest set of most likely tokens whose probability reaches top_p; in (0, 1].
  float top_p = 1.0F;
  /// Key of the request's counter-based random numbers.
  uint64_t seed = 0;

  bool greedy() const { return temperature == 0.0F; }
};

/// What one row computes in a step. The spans point into the scheduler and stay valid until this
/// step is committed, whatever happens to the request meanwhile.
struct PlannedRow {
  RequestId request = 0;
  /// Place in the batch, in [0, max_batch).
  int32_t row = 0;
  /// Tokens computed in this step; 1: a decode token (or a one-token chunk).
  int32_t query_len = 0;
  /// Positions in the cache once the step has run; the first query is at context_len - query_len.
  int32_t context_len = 0;
  /// The logits of the row's last token are sampled.
  bool samples = false;
  /// The chunk's token ids [query_len]. Empty for a decode token: its query is the token that this
  /// row sampled in the step before, which the scheduler may not know yet. (A row that samples and
  /// goes on is part of every following step, so it is always the step before.)
  std::span<const Token> prompt_tokens{};
  /// Block table: the row's pages in order of position; may hold more than context_len needs.
  std::span<const int32_t> pages{};
  SamplingParams sampling{};
  /// How many tokens the request sampled before this one: the counter of its draw.
  uint64_t sample_index = 0;
};

/// The work of one step; host data only. An empty plan is no step: it takes no number, is not run
/// and not committed.
struct StepPlan {
  uint64_t step = 0;               ///< Counts planned steps from 0.
  std::vector<PlannedRow> rows{};  ///< In order of row.
  int32_t prompt_tokens = 0;       ///< Sum of query_len over prompt chunks.
  int32_t decode_tokens = 0;       ///< Rows whose query is a sampled token.

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
  double seconds = 0;     ///< What the forward and the sampling took where they ran.
  double bytes = 0;       ///< What it had to read: weights once, K and V of the rows' contexts.
  double operations = 0;  ///< What it had to compute; a multiply-add counts two.
  std::vector<SampledToken> tokens{};
};

}  // namespace decant
