#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sched/step_plan.h"
#include "server/completion_request.h"
#include "text/tokenizer.h"

namespace decant {

/// Collects log-probabilities of a choice's tokens in the form of its API:
/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}]} for chat,
/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} for completions. A token that no
/// text can have comes as -9999, since JSON has no infinity.
class LogprobsJson {
 public:
  /// `tokenizer` must outlive it.
  LogprobsJson(ApiKind kind, const Tokenizer& tokenizer) : kind_(kind), tokenizer_(&tokenizer) {}

  void Add(const PositionLogprobs& position);

  /// Adds a prompt's tokens to a completion's. `positions`: of all tokens but the first, which has
  /// nothing before it. `shown`: the prompt's text has the first token too.
  void AddPrompt(std::span<const Token> tokens, std::span<const PositionLogprobs> positions,
                 bool first_shown);

  /// What was added since the last Take; "null" without anything.
  std::string Take();

 private:
  void AddChat(const PositionLogprobs& position);
  void AddCompletion(const PositionLogprobs& position);
  void AddOffset(Token token);

  ApiKind kind_;
  const Tokenizer* tokenizer_;
  std::string entries_;  ///< Chat's "content", or completions' "tokens".
  std::string logprobs_;
  std::string tops_;
  std::string offsets_;
  int64_t offset_ = 0;  ///< Code points of the text so far.
};

}  // namespace decant
