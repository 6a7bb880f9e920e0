#include "text/chat_template.h"

#include <optional>

#include "jinja/json.h"
#include "text/utf8.h"

namespace decant {

namespace {

using jinja::Dict;
using jinja::Value;

constexpr std::string_view kOwnVariables[] = {"messages", "tools", "documents",
                                              "add_generation_prompt"};

/// Older names of a message's reasoning, that transformers keeps alive: the first one given is
/// `reasoning_content`, and `thinking` unless that is given too.
constexpr std::string_view kReasoningNames[] = {"reasoning_content", "thinking", "reasoning"};

/// The text of content in parts, or nullopt where a part is not text.
std::optional<std::string> JoinParts(const jinja::Sequence& parts) {
  std::string text;
  bool first = true;
  for (const Value& part : parts.items()) {
    if (!part.is(Value::Kind::kDict)) return std::nullopt;
    const Value* type = part.dict().FindText("type");
    const Value* part_text = part.dict().FindText("text");
    if (type == nullptr || !type->is(Value::Kind::kText) || type->text().bytes != "text" ||
        part_text == nullptr || !part_text->is(Value::Kind::kText)) {
      return std::nullopt;
    }
    if (!std::exchange(first, false)) text += '\n';
    text += part_text->text().bytes;
  }
  return text;
}

bool IsPartList(const Value& content) {
  return content.is(Value::Kind::kSequence) && !content.sequence().items().empty();
}

enum class Parts { kKeep, kJoin };

/// `message` as transformers hands it to a template.
Dict NormalizeMessage(const Dict& message, Parts parts) {
  const Value* reasoning = nullptr;
  for (const std::string_view name : kReasoningNames) {
    const Value* found = message.FindText(name);
    if (reasoning == nullptr && found != nullptr && !found->is(Value::Kind::kNone)) {
      reasoning = found;
    }
  }
  Dict normalized;
  if (reasoning != nullptr) normalized.Set(Value("thinking"), *reasoning);
  for (const Dict::Entry& entry : message.entries()) {
    if (entry.value.is(Value::Kind::kNone)) continue;
    std::optional<std::string> joined;
    if (parts == Parts::kJoin && entry.key.text().bytes == "content" && IsPartList(entry.value)) {
      joined = JoinParts(entry.value.sequence());
    }
    normalized.Set(entry.key, joined.has_value() ? Value(*std::move(joined)) : entry.value);
  }
  if (reasoning != nullptr) normalized.Set(Value("reasoning_content"), *reasoning);
  return normalized;
}

Expected<Value> NormalizeMessages(const Value& messages, Parts parts) {
  if (!messages.is(Value::Kind::kSequence)) {
    return InvalidArgument("messages must be an array, not a {}", jinja::TypeName(messages));
  }
  std::vector<Value> normalized;
  for (const Value& message : messages.sequence().items()) {
    const size_t index = normalized.size();
    if (!message.is(Value::Kind::kDict)) {
      return InvalidArgument("message {} must be an object, not a {}", index,
                             jinja::TypeName(message));
    }
    const Value* role = message.dict().FindText("role");
    if (role == nullptr || !role->is(Value::Kind::kText)) {
      return InvalidArgument("message {} needs a 'role' that is a string", index);
    }
    normalized.push_back(jinja::MakeDict(NormalizeMessage(message.dict(), parts)));
  }
  return jinja::MakeList(std::move(normalized));
}

Expected<Value> ReadJson(std::string_view json, std::string_view what) {
  Expected<Value> value = jinja::ParseJson(json);
  if (!value.ok()) return value.status().WithContext(what);
  return value;
}

/// Adds the caller's variables; fails for one that would hide what the template is rendered from.
Status AddVariables(std::string_view json, Dict& variables) {
  DECANT_ASSIGN_OR_RETURN(const Value extra, ReadJson(json, "variables"));
  if (!extra.is(Value::Kind::kDict)) {
    return InvalidArgument("variables must be an object, not a {}", jinja::TypeName(extra));
  }
  for (const Dict::Entry& entry : extra.dict().entries()) {
    for (const std::string_view own : kOwnVariables) {
      if (entry.key.text().bytes == own) {
        return InvalidArgument("'{}' cannot be given as a variable", own);
      }
    }
    variables.Set(entry.key, entry.value);
  }
  return Status();
}

}  // namespace

Expected<ChatTemplate> ChatTemplate::Create(std::string_view source, ChatTemplateOptions options) {
  for (const auto& [name, token] : options.special_tokens) {
    if (!IsUtf8(token)) return InvalidArgument("chat template: the {} is not UTF-8", name);
  }
  Expected<jinja::Template> parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return parsed.status().WithContext("chat template");
  ChatTemplate chat_template(*std::move(parsed), std::move(options));
  if (!chat_template.ReadsContentParts()) chat_template.content_parts_ = ContentParts::kJoined;
  return chat_template;
}

bool ChatTemplate::ReadsContentParts() const {
  // A template that does not know arrays fails, leaves the text out, or prints Python's list.
  const Expected<std::string> text =
      Render(R"([{"role": "user", "content": [{"type": "text", "text": "a part's text"}]}])", {});
  return text.ok() && text->find("a part's text") != std::string::npos &&
         text->find("\"a part's text\"") == std::string::npos;
}

Expected<std::string> ChatTemplate::Render(std::string_view messages_json,
                                           const ChatRenderOptions& options) const {
  DECANT_ASSIGN_OR_RETURN(Value messages, ReadJson(messages_json, "messages"));
  return RenderValue(std::move(messages), options);
}

Expected<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                           const ChatRenderOptions& options) const {
  std::vector<Value> values;
  for (const ChatMessage& message : messages) {
    if (!IsUtf8(message.role) || !IsUtf8(message.content)) {
      return InvalidArgument("message {} is not UTF-8", values.size());
    }
    Dict dict;
    dict.Set(Value("role"), Value(message.role));
    dict.Set(Value("content"), Value(message.content));
    values.push_back(jinja::MakeDict(std::move(dict)));
  }
  return RenderValue(jinja::MakeList(std::move(values)), options);
}

Expected<std::string> ChatTemplate::RenderValue(Value messages,
                                                const ChatRenderOptions& options) const {
  DECANT_ASSIGN_OR_RETURN(
      messages,
      NormalizeMessages(messages,
                        content_parts_ == ContentParts::kJoined ? Parts::kJoin : Parts::kKeep));
  Value tools = jinja::None{};
  if (!options.tools_json.empty()) {
    DECANT_ASSIGN_OR_RETURN(tools, ReadJson(options.tools_json, "tools"));
    if (!tools.is(Value::Kind::kSequence) && !tools.is(Value::Kind::kNone)) {
      return InvalidArgument("tools must be an array, not a {}", jinja::TypeName(tools));
    }
  }
  Dict variables;
  for (const auto& [name, token] : options_.special_tokens) {
    variables.Set(Value(name), Value(token));
  }
  if (!options.variables_json.empty()) {
    DECANT_RETURN_IF_ERROR(AddVariables(options.variables_json, variables));
  }
  variables.Set(Value("messages"), std::move(messages));
  variables.Set(Value("tools"), std::move(tools));
  variables.Set(Value("documents"), jinja::None{});
  variables.Set(Value("add_generation_prompt"),
                Value(options.generation_prompt == GenerationPrompt::kYes));
  Expected<std::string> text =
      template_.Render(variables, {.limits = options_.limits, .clock = options_.clock});
  if (!text.ok()) return text.status().WithContext("chat template");
  return text;
}

}  // namespace decant
