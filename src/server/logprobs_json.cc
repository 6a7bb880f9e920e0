#include "server/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/utf8.h"

namespace decant {
namespace {

constexpr float kLeastLogprob = -9999.0F;

/// A float's own shortest form: as a double it would have digits that it does not know.
std::string Number(float logprob) { return fmt::format("{}", std::max(logprob, kLeastLogprob)); }

void AppendItem(std::string& list, std::string_view json) {
  if (!list.empty()) list += ", ";
  list += json;
}

JsonObject ChatEntry(const Tokenizer& tokenizer, const TokenLogprob& entry) {
  const std::string_view bytes = tokenizer.TokenBytes(entry.token);
  JsonArray numbers;
  for (const char byte : bytes) numbers.Add(static_cast<int>(static_cast<unsigned char>(byte)));
  return JsonObject()
      .Add("token", bytes)
      .AddJson("logprob", Number(entry.logprob))
      .Add("bytes", numbers);
}

/// A token's text; of one that is half a code point "bytes:\xe2\x82", as OpenAI writes it, so that
/// different tokens have different texts.
std::string CompletionToken(const Tokenizer& tokenizer, Token token) {
  const std::string_view bytes = tokenizer.TokenBytes(token);
  if (IsUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// {"token": logprob}, the chosen token among them.
std::string TopJson(const Tokenizer& tokenizer, const PositionLogprobs& position) {
  std::vector<std::string> seen;
  JsonObject json;
  const auto add = [&](const TokenLogprob& entry) {
    std::string text = CompletionToken(tokenizer, entry.token);
    if (std::ranges::find(seen, text) != seen.end()) return;
    json.AddJson(text, Number(entry.logprob));
    seen.push_back(std::move(text));
  };
  for (const TokenLogprob& entry : position.top) add(entry);
  add(position.chosen);
  return json.ToString();
}

}  // namespace

void LogprobsJson::Add(const PositionLogprobs& position) {
  if (kind_ == ApiKind::kChat) {
    AddChat(position);
  } else {
    AddCompletion(position);
  }
}

void LogprobsJson::AddChat(const PositionLogprobs& position) {
  JsonArray top;
  for (const TokenLogprob& entry : position.top) top.Add(ChatEntry(*tokenizer_, entry));
  AppendItem(entries_, ChatEntry(*tokenizer_, position.chosen).Add("top_logprobs", top).ToString());
}

void LogprobsJson::AddCompletion(const PositionLogprobs& position) {
  AppendItem(entries_, JsonQuote(CompletionToken(*tokenizer_, position.chosen.token)));
  AppendItem(logprobs_, Number(position.chosen.logprob));
  AppendItem(tops_, TopJson(*tokenizer_, position));
  AppendItem(offsets_, std::to_string(offset_));
  // A control token is no part of the text.
  if (!tokenizer_->is_control(position.chosen.token)) AddOffset(position.chosen.token);
}

void LogprobsJson::AddPrompt(std::span<const Token> tokens,
                             std::span<const PositionLogprobs> positions, bool first_shown) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    AppendItem(entries_, JsonQuote(CompletionToken(*tokenizer_, tokens[i])));
    AppendItem(offsets_, std::to_string(offset_));
    if (i > 0 || first_shown) AddOffset(tokens[i]);
    const bool known = i > 0 && i <= positions.size();
    AppendItem(logprobs_, known ? Number(positions[i - 1].chosen.logprob) : "null");
    AppendItem(tops_, known ? TopJson(*tokenizer_, positions[i - 1]) : "null");
  }
}

/// Counts the bytes that begin a code point, so that a token with half of one counts right.
void LogprobsJson::AddOffset(Token token) {
  offset_ += std::ranges::count_if(tokenizer_->TokenBytes(token), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
}

std::string LogprobsJson::Take() {
  if (entries_.empty()) return "null";
  std::string json;
  if (kind_ == ApiKind::kChat) {
    json = fmt::format(R"({{"content": [{}], "refusal": null}})", entries_);
  } else {
    json = fmt::format(
        R"({{"tokens": [{}], "token_logprobs": [{}], "top_logprobs": [{}], "text_offset": [{}]}})",
        entries_, logprobs_, tops_, offsets_);
  }
  for (std::string* list : {&entries_, &logprobs_, &tops_, &offsets_}) list->clear();
  return json;
}

}  // namespace decant
