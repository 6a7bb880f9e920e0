#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace decant {

using RequestId = uint64_t;
using Token = int32_t;

/// What is added to a token's logit.
struct TokenBias {
  Token token = 0;
  float bias = 0;
};

using LogitBias = std::vector<TokenBias>;

/// How a request's next token is drawn from its logits. The default is greedy. docs/sampling.md
/// says in which order the fields act and where each comes from, ValidateSampling what each may be.
struct SamplingParams {
  /// 0: greedy (the first largest logit); otherwise logits are divided by it.
  float temperature = 0.0F;
  /// Keep the k largest logits and those equal to the smallest of them; 0: all.
  int32_t top_k = 0;
  /// Keep the smallest set of most likely tokens whose probability reaches top_p.
  float top_p = 1.0F;
  /// Drop tokens less likely than min_p times the most likely one; 0: none.
  float min_p = 0.0F;
  /// Key of the request's counter-based random numbers.
  uint64_t seed = 0;

  /// Added to the logits before all else; null: nothing.
  std::shared_ptr<const LogitBias> logit_bias{};
  /// Logits of tokens in the prompt or generated: divided by it if positive, multiplied if not.
  float repetition_penalty = 1.0F;
  /// Subtracted from the logits of generated tokens, once for each time.
  float frequency_penalty = 0.0F;
  /// Subtracted from the logits of generated tokens, once.
  float presence_penalty = 0.0F;
  /// The request's end tokens get no probability until so many tokens are generated.
  int32_t min_tokens = 0;

  /// Report the log-probability of each generated token and of this many most likely ones.
  std::optional<int32_t> logprobs{};
  /// The same for the prompt's tokens, each given those before it.
  std::optional<int32_t> prompt_logprobs{};

  bool greedy() const { return temperature == 0.0F; }
  /// Whether a draw depends on which tokens there are already.
  bool penalizes() const {
    return repetition_penalty != 1.0F || frequency_penalty != 0.0F || presence_penalty != 0.0F;
  }
};

/// A token and the natural logarithm of its probability.
struct TokenLogprob {
  Token token = 0;
  float logprob = 0;
};

/// The log-probability of the token at a position, and of those that were most likely there: of the
/// softmax of the model's own logits, before bias, penalties and temperature.
struct PositionLogprobs {
  TokenLogprob chosen{};
  std::vector<TokenLogprob> top{};  ///< Most likely first, as many as the request asked for.
};

/// What one row computes in a step. The spans point into the scheduler and stay valid until this
/// step is committed, whatever happens to the request meanwhile.
struct PlannedRow {
  RequestId request = 0;
  /// Which of the request's samples the row computes; a request of one has sample 0.
  int32_t sample = 0;
  /// Place in the batch, in [0, max_batch).
  int32_t row = 0;
  /// Tokens computed in this step; 1: a decode token (or a one-token chunk).
  int32_t query_len = 0;
  /// Positions in the cache once the step has run; the first query is at context_len - query_len.
  int32_t context_len = 0;
  /// The logits of the row's last token are sampled.
  bool samples = false;
  /// The chunk's token ids [query_len]. A row's first chunk need not start at position 0: what lies
  /// before it, another sample of the request has computed in pages that both hold (never for
  /// sample 0, which reports prompt_logprobs: each position tells of the next). Empty for a decode
  /// token: its query is the token that this row sampled in the step before, which the scheduler
  /// may not know yet. (A row that samples and goes on is part of every following step, so it is
  /// always the step before.)
  std::span<const Token> prompt_tokens{};
  /// The request's whole prompt, for penalties and prompt_logprobs.
  std::span<const Token> prompt{};
  /// The request's end tokens, for min_tokens.
  std::span<const Token> stop_tokens{};
  /// Block table: the row's pages in order of position; may hold more than context_len needs.
  std::span<const int32_t> pages{};
  /// The request's, but for the seed, which is the sample's own (SampleSeed).
  SamplingParams sampling{};
  /// How many tokens the sample has before this one: the counter of its draw.
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
  /// If the request asked for logprobs.
  std::optional<PositionLogprobs> logprobs{};
  /// With the first token of sample 0 of a request that asked for prompt_logprobs: entry i is for
  /// prompt token i + 1 (the first has nothing before it).
  std::vector<PositionLogprobs> prompt_logprobs{};
};

/// A request that cannot go on, and why: what was computed for it is no number.
struct RequestFailure {
  RequestId request = 0;
  Status status{};
};

/// What a step produced: one token for each planned row that samples, in plan order.
struct StepResult {
  uint64_t step = 0;
  double seconds = 0;     ///< What the forward and the sampling took where they ran.
  double gap = 0;         ///< Seconds there from the end of the step before to this one's begin.
  double bytes = 0;       ///< What it had to read: weights once, K and V of the rows' contexts.
  double operations = 0;  ///< What it had to compute; a multiply-add counts two.
  std::vector<SampledToken> tokens{};
  /// Of the plan's requests, those that end here; their tokens mean nothing. A request may be there
  /// more than once: the first says why.
  std::vector<RequestFailure> failures{};
};

}  // namespace decant
