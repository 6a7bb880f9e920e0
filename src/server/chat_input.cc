#include "server/chat_input.h"

#include <fmt/format.h>

#include <utility>

namespace decant {
namespace {

constexpr size_t kMaxTools = 128;

/// The member of an object; null where there is none or it is null.
Json* Member(Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool IsString(const Json* value) { return value != nullptr && value->is_string(); }

void CheckContent(const std::string& place, const Json& content, ParameterReader& reader) {
  if (content.is_string() || content.is_null()) return;
  const std::string name = place + ".content";
  if (!content.is_array()) {
    return reader.Fail(
        name, fmt::format("'{}' is {}: it must be a string or an array of text parts", name,
                          JsonKind(content)));
  }
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const auto type = part.is_object() ? part.find("type") : part.end();
    const auto text = part.is_object() ? part.find("text") : part.end();
    const bool is_text = type != part.end() && *type == "text" && text != part.end() &&
                         text->is_string() && part.size() == 2;
    if (is_text) continue;
    return reader.Fail(name,
                       fmt::format("'{}[{}]' must be {{\"type\": \"text\", \"text\": \"…\"}}: "
                                   "other content is not supported",
                                   name, i));
  }
}

/// Checks the calls of an assistant's message and puts their arguments into the form of templates.
void ReadToolCalls(const std::string& place, Json& message, ParameterReader& reader) {
  Json* calls = Member(message, "tool_calls");
  if (calls == nullptr) return;
  const std::string name = place + ".tool_calls";
  if (!calls->is_array()) {
    return reader.Fail(name,
                       fmt::format("'{}' is {}: it must be an array", name, JsonKind(*calls)));
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    Json& call = (*calls)[i];
    Json* function = call.is_object() ? Member(call, "function") : nullptr;
    if (function == nullptr || !function->is_object() || !IsString(Member(*function, "name"))) {
      return reader.Fail(
          name, fmt::format("'{}[{}]' must be {{\"id\", \"type\": \"function\", \"function\": "
                            "{{\"name\", \"arguments\"}}}}",
                            name, i));
    }
    Json* arguments = Member(*function, "arguments");
    if (!IsString(arguments)) continue;
    const auto& text = arguments->get_ref<const std::string&>();
    Expected<Json> parsed = text.empty() ? Expected<Json>(Json::object()) : ParseJson(text);
    if (!parsed.ok()) {
      return reader.Fail(name, fmt::format("'{}[{}].function.arguments' must be JSON: {}", name, i,
                                           parsed.status().message()));
    }
    *arguments = *std::move(parsed);
  }
}

std::string ReadMessages(ParameterReader& reader) {
  const Json* messages = reader.Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    reader.Fail("messages", "'messages' must be an array of at least one {\"role\", \"content\"}");
    return {};
  }
  Json read = *messages;
  for (size_t i = 0; i < read.size() && reader.ok(); ++i) {
    const std::string place = fmt::format("messages[{}]", i);
    Json& message = read[i];
    if (!message.is_object() || !IsString(Member(message, "role"))) {
      reader.Fail("messages", fmt::format("'{}' must be an object with a string \"role\"", place));
      break;
    }
    if (const Json* content = Member(message, "content")) CheckContent(place, *content, reader);
    ReadToolCalls(place, message, reader);
  }
  return JsonText(read);
}

std::string ReadTools(const ApiModel& model, ParameterReader& reader) {
  const Json* tools = reader.Find("tools");
  if (tools == nullptr) return {};
  if (!tools->is_array() || tools->empty() || tools->size() > kMaxTools) {
    reader.Fail("tools", fmt::format("'tools' must be an array of 1 to {} tools", kMaxTools));
    return {};
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    Json tool = (*tools)[i];
    const Json* type = tool.is_object() ? Member(tool, "type") : nullptr;
    Json* function = tool.is_object() ? Member(tool, "function") : nullptr;
    if (type == nullptr || *type != "function" || function == nullptr || !function->is_object() ||
        !IsString(Member(*function, "name"))) {
      reader.Fail("tools",
                  fmt::format("'tools[{}]' must be {{\"type\": \"function\", \"function\": "
                              "{{\"name\", \"description\", \"parameters\"}}}}",
                              i));
      return {};
    }
  }
  if (!model.renders_tools()) {
    reader.Fail("tools",
                "'tools' is not supported with this model: its chat template asks for no calls in "
                "<tool_call> tags",
                "unsupported_parameter");
  }
  return JsonText(*tools);
}

}  // namespace

ChatInput ReadChatInput(const ApiModel& model, ParameterReader& reader) {
  ChatInput input;
  input.messages = ReadMessages(reader);
  input.tools = ReadTools(model, reader);
  if (const Json* variables = reader.Find("chat_template_kwargs")) {
    if (variables->is_object()) {
      input.variables = JsonText(*variables);
    } else {
      reader.Fail(
          "chat_template_kwargs",
          fmt::format("'chat_template_kwargs' is {}: it must be an object", JsonKind(*variables)));
    }
  }
  if (!reader.Bool("add_generation_prompt").value_or(true)) {
    input.generation_prompt = GenerationPrompt::kNo;
  }
  return input;
}

std::optional<ChatPrompt> RenderChat(const ApiModel& model, const ChatInput& input,
                                     ParameterReader& reader) {
  if (model.prompter() == nullptr) {
    reader.Fail("messages", "this model has no chat template: use /v1/completions");
    return std::nullopt;
  }
  // Of what is in the JSON, escapes and other keys than content are no part of the prompt.
  const size_t bytes = input.messages.size() + input.tools.size();
  if (model.TooManyBytes(bytes / 2)) {
    reader.Fail(model.TooManyBytesError("messages", bytes));
    return std::nullopt;
  }
  Expected<ChatPrompt> prompt =
      model.prompter()->Render(input.messages, {.generation_prompt = input.generation_prompt,
                                                .tools_json = input.tools,
                                                .variables_json = input.variables});
  if (prompt.ok()) return *std::move(prompt);
  reader.Fail("messages", prompt.status().message());
  return std::nullopt;
}

}  // namespace decant
