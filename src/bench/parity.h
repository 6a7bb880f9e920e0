#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/complete_all.h"
#include "bench/token_rows.h"
#include "engine/engine.h"

namespace decant {

/// One request that two runs answered differently.
struct Flip {
  const TokenRow* a = nullptr;
  const TokenRow* b = nullptr;
  int32_t position = 0;  ///< Tokens that both have before the first that differs.
  /// The tokens that differ; absent where that run's answer ended before.
  std::optional<Token> token_a{};
  std::optional<Token> token_b{};
};

/// Requests, and those of them that differ.
struct ParityCount {
  int64_t requests = 0;
  int64_t differ = 0;

  double share() const;  ///< NaN without a request.
};

struct LengthParity {
  int32_t prompt_tokens = 0;
  ParityCount count{};
};

/// How two runs' tokens compare.
struct Parity {
  std::vector<LengthParity> lengths{};  ///< Shortest prompts first.
  ParityCount all{};
  std::vector<Flip> flips{};  ///< In A's order.
  int64_t only_a = 0;         ///< Requests that the other run lacks.
  int64_t only_b = 0;
};

/// Compares the answers to the same requests: same workload, load, index and prompt. Where a run
/// has several of these (other kernels, other rows), the first goes with the other's first, and so
/// on. `a` and `b` must outlive the result, which points into them.
Parity CompareTokenRows(std::span<const TokenRow> a, std::span<const TokenRow> b);

/// What a model finds about a flip.
struct FlipFinding {
  /// Between the two best logits behind the tokens that both answers begin with. (The difference of
  /// two logits is that of their log-probabilities.)
  double gap = 0;
  Token best = 0;
  Token second = 0;
  bool new_site = false;  ///< The first of the flips here; others have the same tokens before it.
  /// Log-likelihood of each whole answer given the prompt; natural logarithms.
  double logprob_a = 0;
  double logprob_b = 0;
  bool new_answers = false;  ///< No flip before has the same prompt and the same two answers.
};

/// Asks `engine` about every flip; prompts are drawn again from `alphabet`. It takes one position
/// more than the longest request has. Errors: a prompt that does not
/// come out as it was (invalid argument: another model's vocabulary); CompleteAll's.
Expected<std::vector<FlipFinding>> JudgeFlips(Engine& engine, std::span<const Token> alphabet,
                                              std::span<const Flip> flips,
                                              const PromptProgress& progress);

/// Flip sites, each once.
struct SiteCount {
  int64_t sites = 0;
  int64_t near_ties = 0;   ///< Whose gap is under the one allowed.
  double largest_gap = 0;  ///< NaN stays.
};
SiteCount CountSites(std::span<const FlipFinding> findings, double near_tie);

/// A mean, and the standard deviation of it; NaN for fewer than two values.
struct MeanError {
  double mean = 0;
  double error = 0;
};

/// Which of two runs' answers the model finds likelier, each distinct pair once.
struct AnswerQuality {
  int64_t pairs = 0;
  int64_t a_higher = 0;  ///< Log-probability a token.
  int64_t b_higher = 0;
  MeanError total{};      ///< Of A's log-likelihood less B's.
  MeanError per_token{};  ///< The same with each divided by its answer's tokens.
};
AnswerQuality CompareAnswers(std::span<const Flip> flips, std::span<const FlipFinding> findings);

}  // namespace decant
