#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_model.h"
#include "server/parameter_reader.h"

namespace decant {

/// OpenAI's two ways to ask.
enum class ApiKind { kChat, kCompletions };

/// One prompt of a request.
struct CallPrompt {
  std::vector<Token> tokens{};
  std::string text{};          ///< What `echo` repeats.
  int32_t max_new_tokens = 0;  ///< Of each of its samples.
};

/// What a request of either kind asks for. Its choices are all samples of the first prompt, then
/// all of the second, and so on.
struct CompletionCall {
  ApiKind kind = ApiKind::kChat;
  std::string model{};
  std::vector<CallPrompt> prompts{};
  /// What the engine needs besides prompt, budget and sink.
  GenerateRequest settings{};
  std::optional<int32_t> max_tokens{};
  bool stream = false;
  bool include_usage = false;     ///< A last chunk tells of the tokens,
  bool continuous_usage = false;  ///< or every chunk does.
  bool echo = false;
  bool tools = false;  ///< Calls are looked for.
  bool parallel_tool_calls = true;

  int32_t choices() const { return static_cast<int32_t>(prompts.size()) * settings.samples; }
};

/// The parameters that requests of a kind may have; docs/api.md says what each may be.
std::span<const std::string_view> ParameterNames(ApiKind kind);

/// Reads a request's parameters and makes its prompts. Where it is silent, the model's own defaults
/// and then OpenAI's apply; `seed` is for one that names none. The reader has the error.
CompletionCall ReadCompletionCall(ApiKind kind, const ApiModel& model, uint64_t seed,
                                  ParameterReader& reader);

}  // namespace decant
