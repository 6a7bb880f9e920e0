#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "jinja/template.h"

namespace decant {

/// One turn of a conversation, for callers that need no more than its text.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"; the template decides which it takes.
  std::string content;
};

enum class GenerationPrompt {
  kNo,   ///< The conversation alone.
  kYes,  ///< And what opens the assistant's answer.
};

struct ChatTemplateOptions {
  /// Special tokens by the name that templates use: {"bos_token", "<s>"}, {"eos_token", "</s>"}. A
  /// token that the model does not have is left out: to a template it is undefined.
  std::vector<std::pair<std::string, std::string>> special_tokens = {};
  jinja::RenderLimits limits = {};
  /// What strftime_now() reads.
  jinja::Clock clock = jinja::LocalTime;
};

struct ChatRenderOptions {
  GenerationPrompt generation_prompt = GenerationPrompt::kYes;
  /// A JSON array of tools as OpenAI's API has them; empty: none.
  std::string_view tools_json = {};
  /// A JSON object of further variables, as {"enable_thinking": false}; empty: none.
  std::string_view variables_json = {};
};

/// A model's chat template: a conversation in, the prompt's text out, the same that transformers 5
/// `apply_chat_template(tokenize=False)` gives. docs/chat_templates.md describes the language.
class ChatTemplate {
 public:
  /// Errors as jinja::Template::Parse, with "chat template" before them.
  static Expected<ChatTemplate> Create(std::string_view source, ChatTemplateOptions options);

  /// `messages_json`: an array of objects with a string `role`, else as OpenAI's API has them
  /// (content as a string, null or an array of parts, tool_calls, tool_call_id, name), and at most
  /// 50 levels deep. As in transformers, keys whose value is null are left out. Content that is an
  /// array of {"type": "text"} parts is joined with newlines for a template that does not read
  /// arrays. Errors: InvalidArgument for messages of another form, and for those that the template
  /// refuses, in its own words; else as jinja::Template::Render.
  Expected<std::string> Render(std::string_view messages_json,
                               const ChatRenderOptions& options = {}) const;
  Expected<std::string> Render(std::span<const ChatMessage> messages,
                               const ChatRenderOptions& options = {}) const;

 private:
  enum class ContentParts { kKept, kJoined };

  ChatTemplate(jinja::Template parsed, ChatTemplateOptions options)
      : template_(std::move(parsed)), options_(std::move(options)) {}

  bool ReadsContentParts() const;
  Expected<std::string> RenderValue(jinja::Value messages, const ChatRenderOptions& options) const;

  jinja::Template template_;
  ChatTemplateOptions options_;
  ContentParts content_parts_ = ContentParts::kKept;
};

}  // namespace decant
