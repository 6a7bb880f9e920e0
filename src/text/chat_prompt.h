#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace decant {

/// A conversation as a model reads it.
struct ChatPrompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// Makes prompts of conversations. The template's own control tokens become tokens; a control
/// token's name inside a message or a tool stays text, so that nobody can end a turn or pose as
/// another role by writing "<|im_end|>".
///
/// To tell the two apart once the template has mixed them, a character that occurs nowhere in the
/// conversation (one of Unicode's noncharacters) is put into every such name before rendering and
/// taken out after.
class ChatPrompter {
 public:
  /// `tokenizer` is shared. Errors: as ChatTemplate::Create.
  static Expected<ChatPrompter> Create(std::string_view template_source,
                                       ChatTemplateOptions options,
                                       std::shared_ptr<const Tokenizer> tokenizer);

  /// Errors: as ChatTemplate::Render.
  Expected<ChatPrompt> Render(std::string_view messages_json,
                              const ChatRenderOptions& options = {}) const;

 private:
  ChatPrompter(ChatTemplate chat_template, AddedTokens control_tokens,
               std::shared_ptr<const Tokenizer> tokenizer)
      : template_(std::move(chat_template)),
        control_tokens_(std::move(control_tokens)),
        tokenizer_(std::move(tokenizer)) {}

  Expected<std::string> Guard(std::string_view json, std::string_view guard) const;

  ChatTemplate template_;
  AddedTokens control_tokens_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace decant
