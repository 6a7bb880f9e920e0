#pragma once

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace decant {

/// All that a request got.
struct Completion {
  RequestId request = 0;
  std::vector<Token> tokens{};         ///< With kEndOfText, that token too.
  std::vector<int64_t> token_times{};  ///< SteadyNanos when each arrived.
  std::string text{};
  FinishReason finish = FinishReason::kCancelled;
  Status status{};
};

/// Submits `request`, whose sink must be empty, and returns what it gets once it has ended. Errors:
/// Engine::Submit's.
Expected<std::future<Completion>> SubmitAndCollect(Engine& engine, GenerateRequest request);

}  // namespace decant
