#include "server/completion_response.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/run_header.h"

namespace decant {
namespace {

std::string_view ObjectName(const CompletionCall& call) {
  if (call.kind == ApiKind::kCompletions) return "text_completion";
  return call.stream ? "chat.completion.chunk" : "chat.completion";
}

std::string_view BodyName(const CompletionCall& call) {
  if (call.kind == ApiKind::kCompletions) return "text";
  return call.stream ? "delta" : "message";
}

std::string UsageJson(const Usage& usage) {
  return JsonObject()
      .Add("prompt_tokens", usage.prompt_tokens)
      .Add("completion_tokens", usage.completion_tokens)
      .Add("total_tokens", usage.prompt_tokens + usage.completion_tokens)
      .ToString();
}

void AppendChoice(const ChoiceJson& choice, std::string_view body_name, std::string& out) {
  fmt::format_to(std::back_inserter(out),
                 R"({{"index": {}, "{}": {}, "logprobs": {}, "finish_reason": {}}})", choice.index,
                 body_name, choice.body, choice.logprobs, choice.finish_reason);
}

}  // namespace

ResponseWriter::ResponseWriter(const CompletionCall& call, std::string_view id, int64_t created)
    : body_name_(BodyName(call)) {
  head_ = fmt::format(
      R"({{"id": {}, "object": "{}", "created": {}, "model": {}, "system_fingerprint": {}, "choices": [)",
      JsonQuote(id), ObjectName(call), created, JsonQuote(call.model),
      JsonQuote(fmt::format("decant-{}", BuildCommit())));
  if (call.include_usage) chunk_usage_ = ChunkUsage::kNull;
  if (call.continuous_usage) chunk_usage_ = ChunkUsage::kSoFar;
}

std::string ResponseWriter::Whole(std::span<const ChoiceJson> choices, const Usage& usage) const {
  std::string out = head_;
  for (const ChoiceJson& choice : choices) {
    if (choice.index != choices.front().index) out += ", ";
    AppendChoice(choice, body_name_, out);
  }
  return out + "], \"usage\": " + UsageJson(usage) + "}";
}

std::string ResponseWriter::Chunk(const ChoiceJson& choice, const Usage& usage) const {
  std::string out = "data: ";
  out += head_;
  AppendChoice(choice, body_name_, out);
  out += ']';
  if (chunk_usage_ == ChunkUsage::kNull) out += ", \"usage\": null";
  if (chunk_usage_ == ChunkUsage::kSoFar) out += ", \"usage\": " + UsageJson(usage);
  return out + "}\n\n";
}

std::string ResponseWriter::UsageChunk(const Usage& usage) const {
  return "data: " + head_ + "], \"usage\": " + UsageJson(usage) + "}\n\n";
}

std::string ErrorEvent(const ApiError& error) { return "data: " + ErrorJson(error) + "\n\n"; }

std::string_view FinishReasonJson(FinishReason reason, bool has_tool_calls) {
  if (reason == FinishReason::kBudget) return "\"length\"";
  return has_tool_calls ? "\"tool_calls\"" : "\"stop\"";
}

std::string MessageToJson(const MessageParts& message) {
  JsonObject json;
  if (message.role) json.Add("role", "assistant");
  if (message.content) {
    json.Add("content", *message.content);
  } else if (message.null_content) {
    json.AddJson("content", "null");
  }
  if (!message.calls.empty()) json.AddJson("tool_calls", fmt::format("[{}]", message.calls));
  return json.ToString();
}

std::string ToolCallToJson(const ToolCall& call, std::string_view id,
                           std::optional<int32_t> index) {
  JsonObject json;
  if (index) json.Add("index", *index);
  json.Add("id", id).Add("type", "function");
  json.Add("function", JsonObject().Add("name", call.name).Add("arguments", call.arguments));
  return json.ToString();
}

}  // namespace decant
