#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_files.h"
#include "sched/step_plan.h"
#include "server/api_error.h"
#include "text/chat_prompt.h"
#include "text/tokenizer.h"

namespace decant {

/// What the API tells of the model that is served, and what it allows.
struct ApiOptions {
  /// By any of these clients may ask for the model; answers call it by the one that was asked for.
  std::vector<std::string> served_names{};
  std::vector<std::string> api_keys{};  ///< One of them must come with a request; none: no key.
  int32_t max_model_len = 0;            ///< Prompt and completion together.
  int32_t vocab_size = 0;               ///< Token ids are below it.
  int32_t rows = 0;                     ///< EngineConfig::scheduler.max_batch.
  int32_t num_pages = 0;
  int32_t page_size = 64;
  /// Samples that may wait; those that idle rows would take at once do not count.
  int32_t max_queued_requests = 1024;
  GenerationDefaults defaults{};  ///< Apply where a request is silent.
};

inline constexpr int32_t kMaxSamples = 16;  ///< The largest `n`.

/// What every endpoint needs of the model. Immutable, so thread-safe.
class ApiModel {
 public:
  /// `prompter` is absent where the model has no chat template.
  ApiModel(ApiOptions options, std::shared_ptr<const Tokenizer> tokenizer,
           std::optional<ChatPrompter> prompter);

  const ApiOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatPrompter* prompter() const { return prompter_ ? &*prompter_ : nullptr; }
  /// Whether the chat template writes tools into the prompt and asks for calls in <tool_call> tags,
  /// the form that ToolCallParser reads.
  bool renders_tools() const { return renders_tools_; }

  bool Serves(std::string_view name) const;
  /// 404, model_not_found.
  ApiError NotServed(std::string_view name) const;

  /// The tokens of a text as a prompt: control tokens by their names, and with `add_special` what
  /// the tokenizer puts before a text.
  std::vector<Token> Encode(std::string_view text, bool add_special) const;

  /// Whether a text of so many bytes has more tokens than the model's length, however it is cut, so
  /// that it need not be tokenised, which takes seconds for the largest bodies.
  bool TooManyBytes(size_t bytes) const { return bytes > most_bytes_; }
  ApiError TooManyBytesError(std::string_view parameter, size_t bytes) const;

  /// How many tokens each of `samples` continuations can have in the pool's pages; below 1: none.
  int64_t PoolBudget(int64_t prompt_tokens, int32_t samples) const;

 private:
  bool ProbeTools() const;

  ApiOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatPrompter> prompter_;
  size_t most_bytes_ = 0;  ///< As many of the longest token as the model takes.
  bool renders_tools_ = false;
};

}  // namespace decant
