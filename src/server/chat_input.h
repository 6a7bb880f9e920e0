#pragma once

#include <optional>
#include <string>

#include "server/api_model.h"
#include "server/parameter_reader.h"

namespace decant {

/// A conversation that a client sent, checked and in the form that templates take.
struct ChatInput {
  std::string messages{};   ///< JSON
  std::string tools{};      ///< JSON; empty: none.
  std::string variables{};  ///< JSON of chat_template_kwargs; empty: none.
  GenerationPrompt generation_prompt = GenerationPrompt::kYes;
};

/// Reads messages, tools, chat_template_kwargs and add_generation_prompt; refuses content that is
/// not text and, where the model's template has no place for them, tools. A tool call's arguments,
/// a string of JSON, become the object that templates write.
ChatInput ReadChatInput(const ApiModel& model, ParameterReader& reader);

/// The prompt; refuses what the template refuses.
std::optional<ChatPrompt> RenderChat(const ApiModel& model, const ChatInput& input,
                                     ParameterReader& reader);

}  // namespace decant
