#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace decant {

/// A conversation as the JSON of its messages, one text a message, so that what a file said stays
/// as it was (tool calls, parts of content).
class Conversation {
 public:
  /// From a JSON array of messages, or an object with "messages" and maybe "tools", as OpenAI's API
  /// has them. `source` names the text in errors.
  static Expected<Conversation> Parse(std::string_view json, const std::string& source);

  Conversation() = default;
  void Add(std::string_view role, std::string_view content);

  bool empty() const { return messages_.empty(); }
  /// "user", "assistant", …; empty without messages.
  const std::string& last_role() const { return last_role_; }
  std::string MessagesJson() const;
  const std::string& tools_json() const { return tools_json_; }  ///< Empty: none.

 private:
  std::vector<std::string> messages_;
  std::string last_role_;
  std::string tools_json_;
};

}  // namespace decant
