#include "runtime/logit_processors.h"

#include <cmath>
#include <utility>

namespace decant {

bool AwaitsMinTokens(const SamplingParams& params, uint64_t sample_index) {
  return std::cmp_less(sample_index, params.min_tokens);
}

void TokenCounts::Reset(std::span<const Token> prompt) {
  generated_.clear();
  for (const Token token : prompt) generated_.try_emplace(token, 0);
}

bool ChangesLogits(const SamplingParams& params, uint64_t sample_index) {
  return params.logit_bias != nullptr || params.penalizes() ||
         AwaitsMinTokens(params, sample_index);
}

void ProcessLogits(const SamplingParams& params, const TokenCounts& counts,
                   std::span<const Token> stop_tokens, uint64_t sample_index,
                   std::span<float> logits) {
  const auto in_vocabulary = [&](Token token) {
    return token >= 0 && std::cmp_less(token, logits.size());
  };
  if (params.logit_bias) {
    for (const auto& [token, bias] : *params.logit_bias) {
      if (in_vocabulary(token)) logits[token] += bias;
    }
  }
  if (params.penalizes()) {
    for (const auto& [token, generated] : counts.generated()) {
      if (!in_vocabulary(token)) continue;
      float& logit = logits[token];
      logit = logit < 0 ? logit * params.repetition_penalty : logit / params.repetition_penalty;
      if (generated == 0) continue;
      logit -= params.frequency_penalty * static_cast<float>(generated);
      logit -= params.presence_penalty;
    }
  }
  if (AwaitsMinTokens(params, sample_index)) {
    for (const Token token : stop_tokens) {
      if (in_vocabulary(token)) logits[token] = -INFINITY;
    }
  }
}

}  // namespace decant
