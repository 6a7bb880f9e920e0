// Chat templates against transformers, as stored in tests/data/chat.

#include "text/chat_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "jinja/test_json.h"

namespace decant {
namespace {

using Json = nlohmann::ordered_json;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  DECANT_CHECK(file.good(), "cannot open {}", path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path Data(const std::string& name) {
  return std::filesystem::path(DECANT_TEST_DATA) / "chat" / name;
}

ChatTemplateOptions GoldenOptions() {
  ChatTemplateOptions options;
  options.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  // Friday 26 July 2024, 08:05:09, as in make_chat_golden.py.
  options.clock = [] {
    std::tm time{};
    time.tm_year = 124;
    time.tm_mon = 6;
    time.tm_mday = 26;
    time.tm_hour = 8;
    time.tm_min = 5;
    time.tm_sec = 9;
    time.tm_wday = 5;
    time.tm_yday = 207;
    return time;
  };
  return options;
}

ChatTemplate MakeTemplate(const std::string& source) {
  Expected<ChatTemplate> created = ChatTemplate::Create(source, GoldenOptions());
  DECANT_CHECK(created.ok(), "{}", created.status().ToString());
  return *std::move(created);
}

Expected<std::string> RenderConversation(const ChatTemplate& chat_template,
                                         const Json& conversation) {
  const auto part = [&](const char* key) {
    return conversation.contains(key) ? conversation[key].dump() : std::string();
  };
  const std::string tools = part("tools");
  const std::string variables = part("variables");
  ChatRenderOptions options;
  options.generation_prompt = conversation["add_generation_prompt"].get<bool>()
                                  ? GenerationPrompt::kYes
                                  : GenerationPrompt::kNo;
  options.tools_json = tools;
  options.variables_json = variables;
  return chat_template.Render(conversation["messages"].dump(), options);
}

std::string Fnv1a64(const std::string& bytes) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return fmt::format("{:016x}", value);
}

/// Content in parts is joined for templates that do not read it: those differ from transformers,
/// which fails or prints Python's list.
bool HasParts(const Json& conversation) {
  for (const Json& message : conversation["messages"]) {
    if (message.contains("content") && message["content"].is_array()) return true;
  }
  return false;
}

class Conversations {
 public:
  Conversations() : all_(Json::parse(ReadFile(Data("conversations.json")))) {}
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  Json all_;
};

TEST(ChatTemplate, StoredTemplatesRenderAsInTransformers) {
  const nlohmann::json rendered = jinja::ReadGzJson("chat/rendered.json.gz");
  const Conversations conversations;
  int raised = 0;
  int compared = 0;
  for (const auto& [file, expectations] : rendered.items()) {
    const ChatTemplate chat_template = MakeTemplate(ReadFile(Data("templates/" + file)));
    for (const Json& conversation : conversations) {
      const std::string name = conversation["name"].get<std::string>();
      const nlohmann::json& expected = expectations[name];
      const Expected<std::string> text = RenderConversation(chat_template, conversation);
      if (HasParts(conversation) && file != "whitespace.jinja") continue;
      ++compared;
      if (expected.contains("text")) {
        EXPECT_TRUE(text.ok()) << file << ", " << name << ": " << text.status().ToString();
        EXPECT_EQ(text.ok() ? text.value() : "", expected["text"].get<std::string>())
            << file << ", " << name;
      } else {
        ++raised;
        EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument)
            << file << ", " << name << ": " << text.status().ToString();
      }
    }
  }
  EXPECT_GT(compared, 250);
  EXPECT_GT(raised, 10);
}

TEST(ChatTemplate, FetchedTemplatesRenderAsInTransformers) {
  const char* models = std::getenv("DECANT_MODELS");
  const std::filesystem::path folder =
      (models != nullptr ? std::filesystem::path(models)
                         : std::filesystem::path(DECANT_SOURCE_DIR) / "models") /
      "chat-templates";
  if (!std::filesystem::exists(folder / "packages.txt")) {
    GTEST_SKIP() << "no " << folder << ": run scripts/fetch-chat-templates";
  }
  const nlohmann::json expectations = jinja::ReadGzJson("chat/fetched.json.gz");
  const Conversations conversations;
  int compared = 0;
  for (const auto& [file, expected] : expectations.items()) {
    const Expected<ChatTemplate> created =
        ChatTemplate::Create(ReadFile(folder / file), GoldenOptions());
    EXPECT_TRUE(created.ok()) << file << ": " << created.status().ToString();
    if (!created.ok()) continue;
    for (const Json& conversation : conversations) {
      if (HasParts(conversation)) continue;
      const std::string name = conversation["name"].get<std::string>();
      const std::string wanted = expected[name].get<std::string>();
      const Expected<std::string> text = RenderConversation(created.value(), conversation);
      ++compared;
      if (wanted == "error") {
        EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument)
            << file << ", " << name << ": " << text.status().ToString();
      } else if (wanted.starts_with("raised ")) {
        EXPECT_EQ(text.status().ToString(), "invalid argument: chat template: " + wanted.substr(7))
            << file << ", " << name;
      } else {
        EXPECT_TRUE(text.ok()) << file << ", " << name << ": " << text.status().ToString();
        EXPECT_EQ(text.ok() ? Fnv1a64(text.value()) : "", wanted)
            << file << ", " << name << ":\n"
            << (text.ok() ? text.value() : "");
      }
    }
  }
  EXPECT_GT(compared, 4000);
}

constexpr char kChatMl[] =
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' + m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

TEST(ChatTemplate, TypedMessagesAndJsonAreTheSame) {
  const ChatTemplate chat_template = MakeTemplate(kChatMl);
  const std::vector<ChatMessage> messages = {{"system", "Be \"terse\"."}, {"user", "h\u00E9\n{{"}};
  const std::string expected = "<|system|>Be \"terse\".\n<|user|>h\u00E9\n{{\n<|assistant|>";
  EXPECT_EQ(chat_template.Render(messages).value(), expected);
  EXPECT_EQ(chat_template
                .Render(R"([{"role": "system", "content": "Be \"terse\"."},
                            {"role": "user", "content": "h\u00e9\n{{"}])")
                .value(),
            expected);
  EXPECT_EQ(chat_template.Render(messages, {.generation_prompt = GenerationPrompt::kNo}).value(),
            expected.substr(0, expected.size() - 13));
}

TEST(ChatTemplate, PartsAreJoinedOnlyForTemplatesThatDoNotReadThem) {
  const std::string messages =
      R"([{"role": "user", "content": [{"type": "text", "text": "one"},
                                       {"type": "text", "text": "two"}]}])";
  EXPECT_EQ(MakeTemplate(kChatMl).Render(messages).value(), "<|user|>one\ntwo\n<|assistant|>");
  const ChatTemplate reads_parts = MakeTemplate(
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}");
  EXPECT_EQ(reads_parts.Render(messages).value(), "[one][two]");
  // A picture cannot be joined: the template meets the list, and fails.
  const Status status =
      MakeTemplate(kChatMl)
          .Render(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])")
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
}

TEST(ChatTemplate, WrongInputIsRefusedByName) {
  const ChatTemplate chat_template = MakeTemplate(kChatMl);
  const std::pair<const char*, const char*> cases[] = {
      {"", "messages: not JSON"},
      {"[{]", "messages: not JSON at byte"},
      {"{}", "messages must be an array, not a dict"},
      {"3", "messages must be an array, not a int"},
      {"[3]", "message 0 must be an object, not a int"},
      {R"([{"role": "user", "content": ""}, {"content": "x"}])", "message 1 needs a 'role'"},
      {R"([{"role": null}])", "message 0 needs a 'role'"},
      {R"([{"role": 3}])", "message 0 needs a 'role'"},
      {R"([{"role": "user"}])", "chat template: line 1: a dict has no 'content'"},
      {R"([{"role": "user", "content": null}])", "a dict has no 'content'"},
      {R"([{"role": "user", "content": 3}])", "'+' between str and int"},
  };
  for (const auto& [messages, words] : cases) {
    const Status status = chat_template.Render(std::string_view(messages)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << messages;
    EXPECT_NE(status.message().find(words), std::string::npos)
        << messages << ": " << status.message();
  }
  const std::vector<ChatMessage> messages = {{"user", "x"}};
  for (const auto& [options, words] : {
           std::pair(ChatRenderOptions{.tools_json = "{}"}, "tools must be an array"),
           std::pair(ChatRenderOptions{.tools_json = "["}, "tools: not JSON"),
           std::pair(ChatRenderOptions{.variables_json = "[]"}, "variables must be an object"),
           std::pair(ChatRenderOptions{.variables_json = R"({"messages": 1})"},
                     "'messages' cannot be given as a variable"),
       }) {
    const Status status = chat_template.Render(messages, options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  const std::vector<ChatMessage> invalid = {{"user", "\xFF"}};
  EXPECT_EQ(chat_template.Render(invalid).status().message(), "message 0 is not UTF-8");
}

TEST(ChatTemplate, RaisedWordsReachTheCaller) {
  const ChatTemplate chat_template =
      MakeTemplate("{{ raise_exception('Conversation roles must alternate') }}");
  const Status status = chat_template.Render(std::vector<ChatMessage>{{"user", "x"}}).status();
  EXPECT_EQ(status.ToString(),
            "invalid argument: chat template: Conversation roles must alternate");
}

TEST(ChatTemplate, TokensVariablesAndTimeAreTheCallers) {
  const ChatTemplate chat_template = MakeTemplate(
      "{{ bos_token }}{{ eos_token }}{{ unk_token is defined }}{{ enable_thinking }}"
      "{{ strftime_now('%d %b %Y') }}{{ tools is none }}");
  EXPECT_EQ(
      chat_template
          .Render(std::vector<ChatMessage>{}, {.variables_json = R"({"enable_thinking": false})"})
          .value(),
      "<s></s>FalseFalse26 Jul 2024True");
}

TEST(ChatTemplate, AFaultyTemplateIsRefusedWithItsLine) {
  const Status status = ChatTemplate::Create("a\n{% include 'b' %}", {}).status();
  EXPECT_EQ(status.ToString(),
            "unimplemented: chat template: line 2: not supported: the tag 'include'");
  EXPECT_EQ(ChatTemplate::Create("{{ x }}", {.special_tokens = {{"bos_token", "\xFF"}}})
                .status()
                .message(),
            "chat template: the bos_token is not UTF-8");
}

}  // namespace
}  // namespace decant
