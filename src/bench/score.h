#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/complete_all.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace decant {

/// A request whose completion has the log-probability of each of `tokens` but the first, given
/// those before it, and of the `top` most likely ones there: Completion::prompt_logprobs. It takes
/// one position more than `tokens` has.
GenerateRequest MakeScoringRequest(std::vector<Token> tokens, int32_t top);

/// How likely a model finds a text.
struct TextScore {
  std::vector<float> logprobs{};  ///< Of every token that was scored; natural logarithms.
  int64_t bytes = 0;              ///< That these tokens stand for.

  double sum() const;
  double perplexity() const;     ///< exp(-sum / tokens)
  double bits_per_byte() const;  ///< -sum / ln 2 / bytes: comparable across tokenizers.
};

/// The largest difference between the log-probabilities of the same tokens; NaN stays.
double LargestDifference(const TextScore& a, const TextScore& b);

/// Cuts `tokens` into pieces of `window` (>= 2) and scores each piece by itself, its first token
/// too where the tokenizer's texts begin with a token of their own (bos), which then stands before
/// each. Errors:
/// invalid argument for a text without a token to score; CompleteAll's.
Expected<TextScore> ScoreTokens(Engine& engine, const Tokenizer& tokenizer,
                                std::span<const Token> tokens, int32_t window,
                                const PromptProgress& progress);

}  // namespace decant
