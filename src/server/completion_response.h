#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sched/request.h"
#include "server/completion_request.h"
#include "server/tool_calls.h"

namespace decant {

/// Tokens of a request, counted as OpenAI does: each prompt once, whatever its number of choices.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
};

/// A choice, or what a chunk tells of it. All but the index is JSON.
struct ChoiceJson {
  int32_t index = 0;
  std::string body{};  ///< The message, the delta or the text.
  std::string logprobs = "null";
  std::string_view finish_reason = "null";
};

/// Writes a request's answer, whole or as server-sent events, under one id and time. Writing one
/// costs little: it happens on the engine's thread.
class ResponseWriter {
 public:
  /// `created`: seconds since 1970.
  ResponseWriter(const CompletionCall& call, std::string_view id, int64_t created);

  std::string Whole(std::span<const ChoiceJson> choices, const Usage& usage) const;

  /// One event; `usage` is what has been computed so far.
  std::string Chunk(const ChoiceJson& choice, const Usage& usage) const;

  /// The event behind all chunks that has no choices.
  std::string UsageChunk(const Usage& usage) const;

 private:
  enum class ChunkUsage { kAbsent, kNull, kSoFar };

  std::string head_;            ///< Up to the choices.
  std::string_view body_name_;  ///< "message", "delta" or "text".
  ChunkUsage chunk_usage_ = ChunkUsage::kAbsent;
};

/// "data: ERROR\n\n", for a failure in mid-stream.
std::string ErrorEvent(const ApiError& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

/// What OpenAI calls it, as JSON: "length", "stop", or "tool_calls" for a text that ended by itself
/// and has some.
std::string_view FinishReasonJson(FinishReason reason, bool has_tool_calls);

/// What a message, or a chunk's part of one, is made of.
struct MessageParts {
  bool role = false;                          ///< Says that it is the assistant's.
  std::optional<std::string_view> content{};  ///< Absent: left out.
  bool null_content = false;                  ///< Absent content is null.
  std::string_view calls{};                   ///< JSON of tool calls, commas between; maybe none.
};

/// {"role": "assistant", "content": …, "tool_calls": […]}.
std::string MessageToJson(const MessageParts& message);

/// `index`, which counts a choice's calls, stands in chunks only.
std::string ToolCallToJson(const ToolCall& call, std::string_view id, std::optional<int32_t> index);

}  // namespace decant
