#include "server/api_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace decant {

ApiModel::ApiModel(ApiOptions options, std::shared_ptr<const Tokenizer> tokenizer,
                   std::optional<ChatPrompter> prompter)
    : options_(std::move(options)),
      tokenizer_(std::move(tokenizer)),
      prompter_(std::move(prompter)) {
  DECANT_CHECK(tokenizer_ != nullptr && !options_.served_names.empty());
  size_t longest = 1;
  for (Token token = 0; token < tokenizer_->vocab_size(); ++token) {
    longest = std::max(longest, tokenizer_->TokenBytes(token).size());
  }
  most_bytes_ = longest * static_cast<size_t>(std::max(options_.max_model_len, 0));
  renders_tools_ = prompter_ && ProbeTools();
}

bool ApiModel::ProbeTools() const {
  const Expected<ChatPrompt> prompt = prompter_->Render(
      R"([{"role": "user", "content": "x"}])",
      {.tools_json = R"([{"type": "function", "function": {"name": "probed_function",
          "description": "x", "parameters": {"type": "object", "properties": {}}}}])"});
  return prompt.ok() && prompt->text.find("probed_function") != std::string::npos &&
         prompt->text.find("<tool_call>") != std::string::npos;
}

bool ApiModel::Serves(std::string_view name) const {
  return std::ranges::find(options_.served_names, name) != options_.served_names.end();
}

ApiError ApiModel::NotServed(std::string_view name) const {
  return {.status = 404,
          .type = kNotFoundError,
          .message = fmt::format("The model `{}` does not exist: this server has `{}`",
                                 RepairUtf8(name.substr(0, 256)), options_.served_names.front()),
          .param = "model",
          .code = "model_not_found"};
}

std::vector<Token> ApiModel::Encode(std::string_view text, bool add_special) const {
  std::vector<Token> tokens = tokenizer_->Encode(text, SpecialTokens::kParse);
  if (!add_special || !tokenizer_->add_bos()) return tokens;
  // A client that wrote the token itself does not get it twice.
  if (tokens.empty() || tokens.front() != *tokenizer_->bos()) {
    tokens.insert(tokens.begin(), *tokenizer_->bos());
  }
  return tokens;
}

ApiError ApiModel::TooManyBytesError(std::string_view parameter, size_t bytes) const {
  return {.message = fmt::format("This model's maximum context length is {} tokens. However, you "
                                 "sent a prompt of {} bytes, which are more. Please reduce its "
                                 "length.",
                                 options_.max_model_len, bytes),
          .param = std::string(parameter),
          .code = "context_length_exceeded"};
}

int64_t ApiModel::PoolBudget(int64_t prompt_tokens, int32_t samples) const {
  // Samples share the whole pages of all prompt tokens but the last.
  const int64_t shared = samples > 1 ? (prompt_tokens - 1) / options_.page_size : 0;
  const int64_t own = (options_.num_pages - shared) / samples;
  return (shared + own) * options_.page_size - prompt_tokens;
}

}  // namespace decant
