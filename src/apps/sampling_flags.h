#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "model/model_files.h"

namespace CLI {
class App;
}

namespace decant {

/// The flags that say how tokens are drawn and when a text ends.
struct SamplingFlags {
  int32_t max_tokens = 128;
  bool model_defaults = false;
  std::optional<float> temperature{};
  std::optional<int32_t> top_k{};
  std::optional<float> top_p{};
  std::optional<float> min_p{};
  std::optional<float> repetition_penalty{};
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::string> logit_bias{};
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  uint64_t seed = 0;
  std::vector<std::string> stops{};
};

/// Adds them; the values in `flags` are the defaults.
void AddSamplingFlags(CLI::App& app, SamplingFlags& flags);

/// A request, without prompt and sink, that generates as the flags say; --model-defaults fills in
/// what the model's makers recommend. Errors: a --logit-bias that is not TOKEN=BIAS. What values
/// are allowed, Engine::Submit says.
Expected<GenerateRequest> ToRequest(const SamplingFlags& flags, const GenerationDefaults& defaults);

}  // namespace decant
