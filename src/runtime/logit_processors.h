#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "sched/step_plan.h"

namespace decant {

/// Which tokens a request has, and how often it generated each: what its penalties depend on. Holds
/// distinct tokens only, never a vocabulary.
class TokenCounts {
 public:
  /// Forgets all and takes the tokens of a prompt.
  void Reset(std::span<const Token> prompt);
  /// Counts a generated token.
  void AddGenerated(Token token) { ++generated_[token]; }

  /// Token to how often it was generated; 0: it is in the prompt only.
  const std::unordered_map<Token, int32_t>& generated() const { return generated_; }

 private:
  std::unordered_map<Token, int32_t> generated_;
};

/// Whether the stop tokens are kept away at draw `sample_index`, because of min_tokens.
bool AwaitsMinTokens(const SamplingParams& params, uint64_t sample_index);

/// Whether ProcessLogits changes anything at draw `sample_index`.
bool ChangesLogits(const SamplingParams& params, uint64_t sample_index);

/// Applies, in this order: logit_bias, repetition_penalty, frequency_penalty, presence_penalty,
/// min_tokens. Repetition penalty and min_tokens are those of Hugging Face transformers
/// (RepetitionPenaltyLogitsProcessor, MinNewTokensLengthLogitsProcessor), frequency and presence
/// penalty those of OpenAI's API reference. Ids outside the logits are passed over.
void ProcessLogits(const SamplingParams& params, const TokenCounts& counts,
                   std::span<const Token> stop_tokens, uint64_t sample_index,
                   std::span<float> logits);

}  // namespace decant
