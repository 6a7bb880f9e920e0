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
  std::vector<Token> stop_tokens{};  ///< End-of-text ids: sampling one ends the sample.
  int32_t samples = 1;  ///< Continuations of the prompt, each with a budget and row of its own.
};

/// The seed of a request's sample number `sample` >= 0: sample 0 draws what a request of one sample
/// draws, the others from sequences of their own.
uint64_t SampleSeed(uint64_t seed, int32_t sample);

/// Why a sample of a request ended.
enum class FinishReason {
  kBudget,      ///< It sampled as many tokens as it may.
  kEndOfText,   ///< It sampled one of its stop tokens.
  kStopString,  ///< Its text came to one of its stop strings.
  kCancelled,   ///< Its caller gave it up, or the engine stopped.
  kFailed,      ///< The device failed, or what it computed for the request is no number.
};

inline constexpr int kFinishReasons = 5;

/// "budget", "end of text", "stop string", "cancelled", "failed".
std::string_view FinishReasonName(FinishReason reason);

/// What every request must keep to.
struct RequestLimits {
  int32_t max_model_len = 0;            ///< Most positions, prompt and budget together.
  std::optional<int32_t> vocab_size{};  ///< Prompt ids must be below it; absent: any id >= 0.
};

inline constexpr int32_t kMaxLogprobs = 20;      ///< Most likely tokens reported a position.
inline constexpr size_t kMaxLogitBiases = 1024;  ///< Tokens with a bias.
inline constexpr float kMaxLogitBias = 100.0F;   ///< Of a bias, either way.
inline constexpr float kMaxTokenPenalty = 2.0F;  ///< Of frequency and presence penalties.

/// Refuses what is outside these ranges; the message names the parameter, its value and what is
/// allowed. temperature: finite, >= 0. top_k: >= 0. top_p: (0, 1]. min_p: [0, 1].
/// repetition_penalty: finite, > 0. frequency_penalty, presence_penalty: [-2, 2]. logit_bias: at
/// most 1024 tokens with ids >= 0, none twice, each bias in [-100, 100]. min_tokens: >= 0.
/// logprobs, prompt_logprobs: 0 to 20.
Status ValidateSampling(const SamplingParams& sampling);

/// Refuses an empty prompt, a budget below 1, ids outside the vocabulary, bad sampling parameters
/// (all invalid argument; among these min_tokens over the budget, logit_bias for an id
/// outside the vocabulary), and prompt + budget over max_model_len (resource exhausted).
Status ValidateRequest(const Request& request, const RequestLimits& limits);

}  // namespace decant
