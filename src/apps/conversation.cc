#include "apps/conversation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace decant {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Counts levels without building anything, since a value is built and written by recursion.
bool DeeperThan(std::string_view json, int most) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Expected<Conversation> Conversation::Parse(std::string_view json, const std::string& source) {
  constexpr int kMostLevels = 64;
  if (DeeperThan(json, kMostLevels)) {
    return InvalidArgument("{}: JSON nested deeper than {} levels", source, kMostLevels);
  }
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return InvalidArgument("{}: not JSON", source);
  Conversation conversation;
  const Json* messages = &value;
  if (value.is_object()) {
    const auto found = value.find("messages");
    if (found == value.end()) return InvalidArgument("{}: no \"messages\"", source);
    messages = &*found;
    const auto tools = value.find("tools");
    if (tools != value.end() && !tools->is_null()) conversation.tools_json_ = Text(*tools);
  }
  if (!messages->is_array()) {
    return InvalidArgument("{}: the messages are no array of {{\"role\", \"content\"}}", source);
  }
  for (const Json& message : *messages) {
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (role == message.end() || !role->is_string()) {
      return InvalidArgument("{}: message {} has no \"role\"", source,
                             conversation.messages_.size() + 1);
    }
    conversation.messages_.push_back(Text(message));
    conversation.last_role_ = role->get<std::string>();
  }
  return conversation;
}

void Conversation::Add(std::string_view role, std::string_view content) {
  messages_.push_back(JsonObject().Add("role", role).Add("content", content).ToString());
  last_role_ = role;
}

std::string Conversation::MessagesJson() const {
  return fmt::format("[{}]", fmt::join(messages_, ","));
}

}  // namespace decant
