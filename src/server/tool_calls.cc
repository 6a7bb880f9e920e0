#include "server/tool_calls.h"

#include <algorithm>
#include <utility>

#include "server/json_input.h"

namespace decant {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kSpace = " \t\r\n";

/// How many bytes at the end of `text` may be the beginning of `tag`.
size_t PartialTag(std::string_view text, std::string_view tag) {
  for (size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length) {
    if (text.ends_with(tag.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::optional<ToolCall> ParseToolCall(std::string_view json) {
  const Expected<Json> value = ParseJson(json);
  if (!value.ok() || !value->is_object()) return std::nullopt;
  const auto name = value->find("name");
  const auto arguments = value->find("arguments");
  if (name == value->end() || !name->is_string() || arguments == value->end()) return std::nullopt;
  if (arguments->is_object()) {
    return ToolCall{.name = name->get<std::string>(), .arguments = JsonText(*arguments)};
  }
  // Some models write the object as a string.
  if (!arguments->is_string()) return std::nullopt;
  const auto& text = arguments->get_ref<const std::string&>();
  const Expected<Json> parsed = ParseJson(text);
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  return ToolCall{.name = name->get<std::string>(), .arguments = text};
}

ToolCallParser::Piece ToolCallParser::Push(std::string_view text) {
  Piece piece;
  text_ += text;
  Advance(piece);
  return piece;
}

ToolCallParser::Piece ToolCallParser::Finish() {
  Piece piece;
  const std::string rest = std::exchange(text_, {});
  if (in_call_) {
    TakeCall(rest, std::string(kOpen) + rest, piece);
  } else {
    Emit(rest, piece);
  }
  if (!after_call_) piece.content += spaces_;
  spaces_.clear();
  return piece;
}

void ToolCallParser::Advance(Piece& piece) {
  while (in_call_ ? AdvanceCall(piece) : AdvanceContent(piece)) {
  }
}

/// Tells the content up to the next opening tag; false where there is none yet.
bool ToolCallParser::AdvanceContent(Piece& piece) {
  const size_t tag = text_.find(kOpen);
  in_call_ = tag != std::string::npos;
  const size_t end = in_call_ ? tag : text_.size() - PartialTag(text_, kOpen);
  Emit(std::string_view(text_).substr(0, end), piece);
  text_.erase(0, in_call_ ? end + kOpen.size() : end);
  searched_ = 0;
  return in_call_;
}

/// Tells the call that has begun; false where its closing tag has not come yet.
bool ToolCallParser::AdvanceCall(Piece& piece) {
  const size_t tag = text_.find(kClose, searched_);
  if (tag == std::string::npos) {
    searched_ = text_.size() - std::min(text_.size(), kClose.size() - 1);
    return false;
  }
  const std::string rest = text_.substr(tag + kClose.size());
  text_.resize(tag);
  const std::string call = std::exchange(text_, rest);
  TakeCall(call, std::string(kOpen) + call + std::string(kClose), piece);
  return true;
}

/// Adds the call that `json` is, or else `raw` as content.
void ToolCallParser::TakeCall(std::string_view json, std::string_view raw, Piece& piece) {
  in_call_ = false;
  std::optional<ToolCall> call = ParseToolCall(json);
  if (!call) return Emit(raw, piece);
  spaces_.clear();
  after_call_ = true;
  if (found_ == max_calls_) return;
  ++found_;
  piece.calls.push_back(*std::move(call));
}

/// Adds content but for the whitespace at its end and after a call.
void ToolCallParser::Emit(std::string_view content, Piece& piece) {
  const size_t last = content.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    spaces_ += content;
    return;
  }
  const size_t first = after_call_ ? content.find_first_not_of(kSpace) : 0;
  if (!after_call_) piece.content += spaces_;
  piece.content += content.substr(first, last + 1 - first);
  spaces_ = content.substr(last + 1);
  after_call_ = false;
}

}  // namespace decant
