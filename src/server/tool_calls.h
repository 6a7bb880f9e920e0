#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace decant {

/// What the model wants to be called.
struct ToolCall {
  std::string name;
  std::string arguments;  ///< A JSON object.
};

/// Finds tool calls in a model's text as Qwen2.5 (and others that follow Hermes) write them:
/// <tool_call>{"name": "f", "arguments": {...}}</tool_call>. The rest is content. Whitespace beside
/// a call belongs to neither; what is in the tags but no call stays content, tags and all. Text
/// that may yet become a tag, and whitespace that may yet stand before one, is held back.
class ToolCallParser {
 public:
  struct Piece {
    std::string content;
    std::vector<ToolCall> calls;
  };

  /// Calls beyond `max_calls` are left out.
  explicit ToolCallParser(size_t max_calls) : max_calls_(max_calls) {}

  Piece Push(std::string_view text);

  /// The end of the text, which also ends a call that has no closing tag.
  Piece Finish();

  bool found() const { return found_ > 0; }

 private:
  void Advance(Piece& piece);
  bool AdvanceContent(Piece& piece);
  bool AdvanceCall(Piece& piece);
  void TakeCall(std::string_view json, std::string_view raw, Piece& piece);
  void Emit(std::string_view content, Piece& piece);

  size_t max_calls_;
  size_t found_ = 0;
  bool in_call_ = false;
  std::string spaces_;       ///< Whitespace whose neighbour is not known yet.
  std::string text_;         ///< Not yet told: inside a call, all that follows its opening tag.
  size_t searched_ = 0;      ///< Bytes of text_ in which no closing tag begins.
  bool after_call_ = false;  ///< Nothing but whitespace since the last call.
};

/// The call that `json` is, if it is one.
std::optional<ToolCall> ParseToolCall(std::string_view json);

}  // namespace decant
