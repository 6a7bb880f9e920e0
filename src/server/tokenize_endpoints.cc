#include "server/tokenize_endpoints.h"

#include <array>
#include <utility>

#include "base/json.h"
#include "server/chat_input.h"
#include "server/prompt_input.h"

namespace decant {
namespace {

constexpr std::array<std::string_view, 8> kTokenizeParameters = {"add_generation_prompt",
                                                                 "add_special_tokens",
                                                                 "chat_template_kwargs",
                                                                 "messages",
                                                                 "model",
                                                                 "prompt",
                                                                 "return_token_strs",
                                                                 "tools"};

constexpr std::array<std::string_view, 2> kDetokenizeParameters = {"model", "tokens"};

/// The model may be left out: there is only one.
void CheckModel(const ApiModel& model, ParameterReader& reader) {
  const std::optional<std::string> name = reader.String("model");
  if (name && !model.Serves(*name)) reader.Fail(model.NotServed(*name));
}

std::vector<Token> ChatTokens(const ApiModel& model, ParameterReader& reader) {
  const ChatInput input = ReadChatInput(model, reader);
  if (reader.Find("add_special_tokens") != nullptr) {
    reader.Fail("add_special_tokens",
                "'add_special_tokens' is for 'prompt': a chat template adds its own");
  }
  if (!reader.ok()) return {};
  std::optional<ChatPrompt> prompt = RenderChat(model, input, reader);
  return prompt ? std::move(prompt->tokens) : std::vector<Token>();
}

std::vector<Token> TextTokens(const ApiModel& model, ParameterReader& reader) {
  for (const std::string_view name : {"add_generation_prompt", "chat_template_kwargs", "tools"}) {
    if (reader.Find(name) != nullptr) {
      reader.Fail(name, fmt::format("'{}' is for 'messages', not 'prompt'", name));
    }
  }
  const bool add_special = reader.Bool("add_special_tokens").value_or(true);
  const std::optional<std::string> text = reader.String("prompt");
  if (text && model.TooManyBytes(text->size())) {
    reader.Fail(model.TooManyBytesError("prompt", text->size()));
  }
  return reader.ok() && text ? model.Encode(*text, add_special) : std::vector<Token>();
}

}  // namespace

std::span<const std::string_view> TokenizeParameterNames() { return kTokenizeParameters; }
std::span<const std::string_view> DetokenizeParameterNames() { return kDetokenizeParameters; }

std::string Tokenize(const ApiModel& model, ParameterReader& reader) {
  reader.RefuseOthers(kTokenizeParameters);
  CheckModel(model, reader);
  const bool with_strings = reader.Bool("return_token_strs").value_or(false);
  const bool is_chat = reader.Find("messages") != nullptr;
  if (is_chat == (reader.Find("prompt") != nullptr)) {
    reader.Fail("prompt", "one of 'prompt', a string, and 'messages' must be given");
  }
  if (!reader.ok()) return {};
  const std::vector<Token> tokens = is_chat ? ChatTokens(model, reader) : TextTokens(model, reader);
  JsonArray ids;
  JsonArray strings;
  for (const Token token : tokens) {
    ids.Add(token);
    if (with_strings) strings.Add(model.tokenizer().Spelling(token));
  }
  return JsonObject()
      .Add("count", tokens.size())
      .Add("max_model_len", model.options().max_model_len)
      .Add("tokens", ids)
      .AddJson("token_strs", with_strings ? strings.ToString() : "null")
      .ToString();
}

std::string Detokenize(const ApiModel& model, ParameterReader& reader) {
  reader.RefuseOthers(kDetokenizeParameters);
  CheckModel(model, reader);
  const Json* tokens = reader.Find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    reader.Fail("tokens", "'tokens' must be an array of token ids");
  }
  if (!reader.ok()) return {};
  const std::vector<Token> ids = ReadTokenIds(model, "tokens", *tokens, reader);
  const std::string text = model.tokenizer().Decode(ids, ControlTokens::kShow);
  return JsonObject().Add("prompt", text).ToString();
}

}  // namespace decant
