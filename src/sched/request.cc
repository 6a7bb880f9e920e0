#include "sched/request.h"

#include <cmath>

namespace decant {

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

// The comparisons are written so that NaN fails them.
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
  return {};
}

Status ValidateRequest(const Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens");
  if (request.max_new_tokens < 1) {
    return InvalidArgument("the budget is {} tokens: allowed is at least 1",
                           request.max_new_tokens);
  }
  DECANT_RETURN_IF_ERROR(ValidateSampling(request.sampling));
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
