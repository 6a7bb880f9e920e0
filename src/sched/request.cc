#include "sched/request.h"

#include <cmath>
#include <unordered_set>

#include "base/random.h"

namespace decant {

uint64_t SampleSeed(uint64_t seed, int32_t sample) {
  // Counters from the top, which no draw of sample 0 comes to.
  return sample == 0 ? seed : CounterRng(seed).Bits(~static_cast<uint64_t>(sample));
}

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kBudget:
      return "budget";
    case FinishReason::kEndOfText:
      return "end of text";
    case FinishReason::kStopString:
      return "stop string";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
  }
  return "unknown";
}

namespace {

// The comparisons are written so that NaN fails them.

Status ValidateTokenPenalty(std::string_view name, float value) {
  if (value >= -kMaxTokenPenalty && value <= kMaxTokenPenalty) return {};
  return InvalidArgument("{} is {}: allowed is {} to {} (0: none)", name, value, -kMaxTokenPenalty,
                         kMaxTokenPenalty);
}

Status ValidateLogprobs(std::string_view name, std::optional<int32_t> count) {
  if (!count || (*count >= 0 && *count <= kMaxLogprobs)) return {};
  return InvalidArgument("{} is {}: allowed is 0 to {}", name, *count, kMaxLogprobs);
}

Status ValidateLogitBias(const LogitBias& biases) {
  if (biases.size() > kMaxLogitBiases) {
    return InvalidArgument("logit_bias has {} tokens: allowed is at most {}", biases.size(),
                           kMaxLogitBiases);
  }
  std::unordered_set<Token> seen;
  for (const auto& [token, bias] : biases) {
    if (token < 0) return InvalidArgument("logit_bias names token {}: ids start at 0", token);
    if (!seen.insert(token).second) {
      return InvalidArgument("logit_bias names token {} twice", token);
    }
    if (!(bias >= -kMaxLogitBias && bias <= kMaxLogitBias)) {
      return InvalidArgument("logit_bias of token {} is {}: allowed is {} to {}", token, bias,
                             -kMaxLogitBias, kMaxLogitBias);
    }
  }
  return {};
}

}  // namespace

Status ValidateSampling(const SamplingParams& sampling) {
  if (!(std::isfinite(sampling.temperature) && sampling.temperature >= 0.0F)) {
    return InvalidArgument("temperature is {}: allowed is a finite number of at least 0",
                           sampling.temperature);
  }
  if (sampling.top_k < 0) {
    return InvalidArgument("top_k is {}: allowed is at least 0 (0: all tokens)", sampling.top_k);
  }
  if (!(sampling.top_p > 0.0F && sampling.top_p <= 1.0F)) {
    return InvalidArgument("top_p is {}: allowed is above 0 and at most 1", sampling.top_p);
  }
  if (!(sampling.min_p >= 0.0F && sampling.min_p <= 1.0F)) {
    return InvalidArgument("min_p is {}: allowed is 0 to 1 (0: all tokens)", sampling.min_p);
  }
  if (!(std::isfinite(sampling.repetition_penalty) && sampling.repetition_penalty > 0.0F)) {
    return InvalidArgument("repetition_penalty is {}: allowed is a finite number above 0 (1: none)",
                           sampling.repetition_penalty);
  }
  DECANT_RETURN_IF_ERROR(ValidateTokenPenalty("frequency_penalty", sampling.frequency_penalty));
  DECANT_RETURN_IF_ERROR(ValidateTokenPenalty("presence_penalty", sampling.presence_penalty));
  if (sampling.min_tokens < 0) {
    return InvalidArgument("min_tokens is {}: allowed is at least 0", sampling.min_tokens);
  }
  DECANT_RETURN_IF_ERROR(ValidateLogprobs("logprobs", sampling.logprobs));
  DECANT_RETURN_IF_ERROR(ValidateLogprobs("prompt_logprobs", sampling.prompt_logprobs));
  return sampling.logit_bias ? ValidateLogitBias(*sampling.logit_bias) : Status();
}

Status ValidateRequest(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens");
  if (request.max_new_tokens < 1) {
    return InvalidArgument("the budget is {} tokens: allowed is at least 1",
                           request.max_new_tokens);
  }
  DECANT_RETURN_IF_ERROR(ValidateSampling(request.sampling));
  if (request.sampling.min_tokens > request.max_new_tokens) {
    return InvalidArgument("min_tokens is {}: allowed is at most the budget of {}",
                           request.sampling.min_tokens, request.max_new_tokens);
  }
  if (request.sampling.logit_bias && limits.vocab_size) {
    for (const TokenBias& entry : *request.sampling.logit_bias) {
      if (entry.token < *limits.vocab_size) continue;
      return InvalidArgument("logit_bias names token {}: the vocabulary has {}", entry.token,
                             *limits.vocab_size);
    }
  }
  const auto total = static_cast<int64_t>(request.prompt.size()) + request.max_new_tokens;
  if (total > limits.max_model_len) {
    return Error(StatusCode::kResourceExhausted,
                 "a prompt of {} tokens and a budget of {} make {}: the model takes {}",
                 request.prompt.size(), request.max_new_tokens, total, limits.max_model_len);
  }
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const Token token = request.prompt[i];
    if (token < 0) return InvalidArgument("prompt token {} is {}: ids start at 0", i, token);
    if (limits.vocab_size && token >= *limits.vocab_size) {
      return InvalidArgument("prompt token {} is {}: the vocabulary has {}", i, token,
                             *limits.vocab_size);
    }
  }
  return {};
}

}  // namespace decant
