#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace decant {

/// All that a request's sample got.
struct Completion {
  RequestId request = 0;
  int32_t sample = 0;
  std::vector<Token> tokens{};                      ///< With kEndOfText, that token too.
  std::vector<int64_t> token_times{};               ///< SteadyNanos when each arrived.
  std::vector<PositionLogprobs> logprobs{};         ///< Of each token, if asked for.
  std::vector<PositionLogprobs> prompt_logprobs{};  ///< As StreamUpdate::prompt_logprobs.
  std::string text{};
  FinishReason finish = FinishReason::kCancelled;
  Status status{};
};

/// Submits `request`, whose sink must be empty, and returns what its samples get, in order of their
/// number, once all have ended. Errors: Engine::Submit's.
Expected<std::future<std::vector<Completion>>> SubmitAndCollectSamples(Engine& engine,
                                                                       GenerateRequest request);

/// The same for a request of one sample, which no other may be given.
Expected<std::future<Completion>> SubmitAndCollect(Engine& engine, GenerateRequest request);

}  // namespace decant
