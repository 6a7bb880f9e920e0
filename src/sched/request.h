#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sched/step_plan.h"

namespace decant {

/// What the scheduler is asked to compute.
struct Request {
  RequestId id = 0;
  std::vector<Token> prompt{};
  int32_t max_new_tokens = 0;  ///< The budget: how many tokens to sample at most.
  SamplingParams sampling{};
  std::vector<Token> stop_tokens{};  ///< End-of-text ids: sampling one ends the request.
};

/// Why a request ended.
enum class FinishReason {
  kBudget,      ///< It sampled as many tokens as it may.
  kEndOfText,   ///< It sampled one of its stop tokens.
  kStopString,  ///< Its text came to one of its stop strings.
  kCancelled,   ///< Its caller gave it up, or the engine stopped.
  kFailed,      ///< The device failed.
};

inline constexpr int kFinishReasons = 5;

/// "budget", "end of text", "stop string", "cancelled", "failed".
std::string_view FinishReasonName(FinishReason reason);

/// What every request must keep to.
struct RequestLimits {
  int32_t max_model_len = 0;            ///< Most positions, prompt and budget together.
  std::optional<int32_t> vocab_size{};  ///< Prompt ids must be below it; absent: any id >= 0.
};

/// Refuses a temperature that is not finite or below 0, top_k below 0, top_p outside (0, 1]; the
/// message names the parameter, its value and what is allowed.
Status ValidateSampling(const SamplingParams& sampling);

/// Refuses an empty prompt, a budget below 1, ids outside the vocabulary, bad sampling parameters
/// (all invalid argument), and prompt + budget over max_model_len (resource exhausted).
Status ValidateRequest(const Request& request, const RequestLimits& limits);

}  // namespace decant
