#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "engine/completion.h"
#include "engine/engine.h"

namespace decant {

/// Told now and then how many prompt tokens were computed, of how many in all.
using PromptProgress = std::function<void(int64_t done, int64_t total)>;

/// Serves `requests`, each of one sample and without a sink, and returns what they got, in their
/// order. The engine must be idle; `progress` may be empty. Errors: what Submit refuses, with the
/// request's number; why a request failed; cancelled, after an interrupt. After an error the engine
/// is stopped.
Expected<std::vector<Completion>> CompleteAll(Engine& engine, std::vector<GenerateRequest> requests,
                                              const PromptProgress& progress);

}  // namespace decant
