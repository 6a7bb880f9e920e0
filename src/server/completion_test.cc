// What a client gets, whole and streamed, for what the model says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/test_api.h"

namespace decant {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

Json ChatFields(const std::string& text = "hi") {
  return {{"messages", Json::array({{{"role", "user"}, {"content", text}}})}};
}

/// The choices of a stream put together as a whole answer has them.
Json Join(const std::vector<Json>& events) {
  Json choices = Json::array();
  std::set<std::string> heads;
  for (const Json& event : events) {
    heads.insert(event["id"].get<std::string>() + event["created"].dump() + event["object"].dump() +
                 event["model"].dump());
    for (const Json& part : event["choices"]) {
      const size_t index = part["index"];
      while (choices.size() <= index) {
        choices.push_back({{"index", choices.size()}, {"logprobs", nullptr}});
      }
      Json& choice = choices[index];
      EXPECT_FALSE(choice.contains("finish_reason")) << "a chunk behind the last";
      if (part.contains("text")) {
        choice["text"] = choice.value("text", "") + part["text"].get<std::string>();
      } else {
        const Json& delta = part["delta"];
        EXPECT_EQ(delta.contains("role"), !choice.contains("message"));
        Json& message = choice["message"];
        if (delta.contains("role")) message["role"] = delta["role"];
        if (delta.contains("content")) {
          message["content"] = message.value("content", "") + delta["content"].get<std::string>();
        }
        for (Json call : delta.value("tool_calls", Json::array())) {
          EXPECT_EQ(call["index"], message.value("tool_calls", Json::array()).size());
          call.erase("index");
          message["tool_calls"].push_back(call);
        }
      }
      if (part["logprobs"].is_object()) {
        for (const auto& [name, list] : part["logprobs"].items()) {
          if (!list.is_array()) {
            choice["logprobs"][name] = list;
            continue;
          }
          for (const Json& entry : list) choice["logprobs"][name].push_back(entry);
        }
      }
      if (!part["finish_reason"].is_null()) choice["finish_reason"] = part["finish_reason"];
    }
  }
  EXPECT_THAT(heads, SizeIs(1));
  return choices;
}

/// Without what is random.
Json Comparable(Json choices) {
  for (Json& choice : choices) {
    if (!choice.contains("message")) continue;
    for (Json& call : choice["message"]["tool_calls"]) call.erase("id");
    if (choice["message"]["tool_calls"].empty()) choice["message"].erase("tool_calls");
    const Json content = choice["message"]["content"];
    if (content.is_null() || content == "") choice["message"].erase("content");
  }
  return Json::parse(nlohmann::json(choices).dump());  // keys in order
}

void ExpectSameStreamed(TestApi& api, const std::string& path, const Json& fields) {
  const Json whole = api.Answer(path, fields);
  Json asked = fields;
  asked["stream_options"] = {{"include_usage", true}};
  std::vector<Json> events = api.Events(path, asked);
  ASSERT_FALSE(events.empty());
  const Json usage = events.back();
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"], whole["usage"]);
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_TRUE(events[i]["usage"].is_null());
    EXPECT_THAT(events[i]["choices"], SizeIs(1));
  }
  EXPECT_EQ(Comparable(Join(events)), Comparable(whole["choices"])) << fields.dump();
}

TEST(CompletionTest, ChatAnswersAsOpenAiDoes) {
  TestApi api({});
  api.Say("hello, wörld");
  Json answer = api.Answer(kChat, ChatFields());
  EXPECT_THAT(answer["id"].get<std::string>(), MatchesRegex("chatcmpl-[0-9a-f]{32}"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_GT(answer["created"], 1'600'000'000);
  EXPECT_EQ(answer["model"], kModelName);
  EXPECT_EQ(answer["choices"],
            Json::parse(R"([{"index": 0, "message": {"role": "assistant", "content":
                "hello, wörld"}, "logprobs": null, "finish_reason": "stop"}])"));
  // "he" is one token, "ö" two, and the end of text counts.
  EXPECT_EQ(answer["usage"]["completion_tokens"], 13);
  const int prompt_tokens = answer["usage"]["prompt_tokens"];
  EXPECT_GT(prompt_tokens, 10);
  EXPECT_EQ(answer["usage"]["total_tokens"], prompt_tokens + 13);

  const std::vector<Json> events = api.Events(kChat, ChatFields());
  EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[0]["choices"][0]["delta"],
            Json::parse(R"({"role": "assistant", "content": "he"})"));
  EXPECT_EQ(events.back()["choices"][0]["delta"], Json::object());
  EXPECT_THAT(events, SizeIs(13));
  EXPECT_FALSE(events[0].contains("usage"));
}

TEST(CompletionTest, StreamsSayWhatWholeAnswersSay) {
  TestApi api({});
  api.Say([&](const PlannedRow& row) {
    return api.Encode(row.sample == 1 ? "other é\nthing" : "hello, \"wörld\" 😀 and more");
  });
  for (const char* text : {
           R"({})",
           R"({"n": 3, "seed": 4})",
           R"({"max_tokens": 9, "logprobs": true, "top_logprobs": 2})",
           R"({"logprobs": true, "n": 2})",
           R"({"stop": ["d\" 😀", "zz"], "logprobs": true})",
           R"({"stop": "and more", "ignore_eos": false, "min_tokens": 2, "temperature": 0})",
       }) {
    Json fields = Json::parse(text);
    fields.update(ChatFields());
    ExpectSameStreamed(api, kChat, fields);
  }
  for (const char* text : {
           R"({"prompt": "ab"})",
           R"({"prompt": ["ab", "cé"], "n": 2, "max_tokens": 30})",
           R"({"prompt": [97, 98], "echo": true})",
           R"({"prompt": [[97, 98], [99]], "echo": true, "logprobs": 2, "n": 2})",
           R"({"prompt": "été", "echo": true, "logprobs": 0, "stop": "ll"})",
       }) {
    ExpectSameStreamed(api, kCompletions, Json::parse(text));
  }
}

TEST(CompletionTest, StopStringsAcrossTokensEndTheText) {
  TestApi api({});
  api.Say("one two three");
  Json fields = ChatFields();
  fields["stop"] = "o th";
  const Json choice = api.Answer(kChat, fields)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "one tw");
  EXPECT_EQ(choice["finish_reason"], "stop");
  std::string streamed;
  for (const Json& event : api.Events(kChat, fields)) {
    streamed += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(streamed, "one tw");
}

TEST(CompletionTest, BudgetsAreLengths) {
  TestApi api({});
  api.Say(std::string(3000, 'x'));
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    Json fields = ChatFields();
    fields[name] = 5;
    const Json answer = api.Answer(kChat, fields);
    EXPECT_EQ(answer["choices"][0]["message"]["content"], "xxxxx");
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  }
  // Silent requests: the rest of the model's length, or 16 tokens.
  EXPECT_EQ(api.Answer(kChat, ChatFields())["usage"]["total_tokens"], 2000);
  EXPECT_EQ(api.Answer(kCompletions, {{"prompt", "ab"}})["usage"]["completion_tokens"], 16);
  EXPECT_EQ(
      api.Answer(kCompletions, {{"prompt", std::string(1990, 'a')}})["usage"]["completion_tokens"],
      10);
}

TEST(CompletionTest, PromptsOfEveryKindAndTheirChoices) {
  TestApi api({});
  api.Say([&](const PlannedRow& row) {
    // Says its prompt and its sample.
    std::vector<Token> tokens(row.prompt.begin(), row.prompt.end());
    tokens.push_back('0' + row.sample);
    return tokens;
  });
  const auto texts = [&](Json fields) {
    std::vector<std::string> all;
    const Json answer = api.Answer(kCompletions, std::move(fields));
    for (const Json& choice : answer["choices"]) {
      EXPECT_EQ(choice["index"], all.size());
      all.push_back(choice["text"]);
    }
    return all;
  };
  EXPECT_THAT(texts({{"prompt", "ab"}}), ElementsAre("ab0"));
  EXPECT_THAT(texts({{"prompt", {97, 98}}}), ElementsAre("ab0"));
  EXPECT_THAT(texts({{"prompt", {"ab", "cd"}}, {"n", 2}}), ElementsAre("ab0", "ab1", "cd0", "cd1"));
  EXPECT_THAT(texts({{"prompt", Json::parse("[[97],[98, 99]]")}, {"echo", true}}),
              ElementsAre("aa0", "bcbc0"));
}

TEST(CompletionTest, EchoCarriesThePromptsLogprobs) {
  TestApi api({});
  api.Say("ö");
  const Json logprobs = api.Answer(kCompletions, {{"prompt", "aéb"},
                                                  {"echo", true},
                                                  {"logprobs", 1},
                                                  {"max_tokens", 2}})["choices"][0]["logprobs"];
  EXPECT_EQ(
      logprobs["tokens"],
      Json::parse(R"(["a", "bytes:\\xc3", "bytes:\\xa9", "b", "bytes:\\xc3", "bytes:\\xb6"])"));
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[null, -0.5, -0.75, -1.0, -0.25, -0.5]"));
  // The second half of a code point adds none.
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0, 1, 2, 2, 3, 4]"));
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][3], Json::parse(R"({"b": -1.0})"));
}

TEST(CompletionTest, ChatLogprobsHaveBytes) {
  TestApi api({});
  api.Say("ö");
  Json fields = ChatFields();
  fields["logprobs"] = true;
  fields["top_logprobs"] = 2;
  fields["max_tokens"] = 2;
  const Json content = api.Answer(kChat, fields)["choices"][0]["logprobs"]["content"];
  ASSERT_THAT(content, SizeIs(2));
  EXPECT_EQ(content[0]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(content[0]["bytes"], Json::parse("[195]"));
  EXPECT_EQ(content[1]["bytes"], Json::parse("[182]"));
  EXPECT_EQ(content[1]["logprob"], -0.5);
  ASSERT_THAT(content[0]["top_logprobs"], SizeIs(2));
  EXPECT_EQ(content[0]["top_logprobs"][1]["logprob"], -1.25);
}

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "weather",
    "description": "Now", "parameters": {"type": "object", "properties": {}}}}])";

TEST(CompletionTest, ToolCallsArePartedFromText) {
  TestApi api({});
  Json fields = ChatFields();
  fields["tools"] = Json::parse(kTools);
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"in\": \"Köln\"}}\n</tool_call>";

  api.Say("Let me see.\n" + call + "\n" + call);
  Json choice = api.Answer(kChat, fields)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  ASSERT_THAT(choice["message"]["tool_calls"], SizeIs(2));
  EXPECT_THAT(choice["message"]["tool_calls"][0]["id"].get<std::string>(),
              MatchesRegex("call_[0-9a-f]{32}"));
  EXPECT_EQ(choice["message"]["tool_calls"][0]["type"], "function");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"],
            Json::parse(R"({"name": "weather", "arguments": "{\"in\":\"Köln\"}"})"));
  ExpectSameStreamed(api, kChat, fields);
  fields["n"] = 2;
  fields["logprobs"] = true;
  ExpectSameStreamed(api, kChat, fields);

  fields["parallel_tool_calls"] = false;
  EXPECT_THAT(api.Answer(kChat, fields)["choices"][0]["message"]["tool_calls"], SizeIs(1));

  api.Say(call);
  EXPECT_EQ(api.Answer(kChat, fields)["choices"][0]["message"]["content"], nullptr);
  ExpectSameStreamed(api, kChat, fields);

  // Broken calls, and calls where none are looked for, are text.
  api.Say("<tool_call>{\"name\": \"weather\"</tool_call>");
  choice = api.Answer(kChat, fields)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "<tool_call>{\"name\": \"weather\"</tool_call>");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  ExpectSameStreamed(api, kChat, fields);
  api.Say(call);
  fields["tool_choice"] = "none";
  EXPECT_EQ(api.Answer(kChat, fields)["choices"][0]["message"]["content"], call);
}

TEST(CompletionTest, ToolsReachThePromptAndCallsComeBack) {
  TestApi api({});
  std::string prompt;
  api.Say([&](const PlannedRow& row) {
    if (row.sample_index > 0) return api.Encode("ok");
    prompt = api.tokenizer().Decode(std::vector<Token>(row.prompt.begin(), row.prompt.end()),
                                    ControlTokens::kShow);
    return api.Encode("ok");
  });
  Json fields = {{"tools", Json::parse(kTools)}, {"messages", Json::parse(R"([
      {"role": "user", "content": [{"type": "text", "text": "rain?"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
       "function": {"name": "weather", "arguments": "{\"in\": \"Ulm\"}"}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": "wet"}])")}};
  api.Answer(kChat, fields);
  EXPECT_NE(prompt.find(R"("name": "weather")"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find(R"({"name": "weather", "arguments": {"in": "Ulm"}})"), std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("<tool_response>\nwet"), std::string::npos) << prompt;
  fields["tool_choice"] = "none";
  api.Answer(kChat, fields);
  EXPECT_EQ(prompt.find("\"description\""), std::string::npos) << prompt;
}

TEST(CompletionTest, UsageCanComeWithEveryChunk) {
  TestApi api({});
  const std::vector<Json> events =
      api.Events(kCompletions, {{"prompt", "ab"},
                                {"max_tokens", 3},
                                {"stream_options", {{"continuous_usage_stats", true}}}});
  ASSERT_THAT(events, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i]["usage"],
              (Json{{"prompt_tokens", 2}, {"completion_tokens", i + 1}, {"total_tokens", i + 3}}));
  }
}

TEST(CompletionTest, SamplingReachesTheEngine) {
  TestApi api({.defaults = {.eos = {}, .temperature = 0.5F, .top_p = 0.8F, .top_k = 20}});
  SamplingParams seen;
  api.Say([&](const PlannedRow& row) {
    if (row.sample_index == 0) seen = row.sampling;
    return api.Encode("ok");
  });
  api.Answer(kCompletions, {{"prompt", "a"}});
  EXPECT_EQ(seen.temperature, 0.5F);
  EXPECT_EQ(seen.top_p, 0.8F);
  EXPECT_EQ(seen.top_k, 20);
  EXPECT_EQ(seen.min_p, 0.0F);
  const uint64_t seed = seen.seed;
  api.Answer(kCompletions, {{"prompt", "a"}});
  EXPECT_NE(seen.seed, seed) << "a silent request draws anew";
  api.Answer(kCompletions,
             Json::parse(R"({"prompt": "a", "temperature": 2, "top_p": 0.25, "top_k": -1,
      "min_p": 0.125, "seed": -3, "frequency_penalty": 1.5, "presence_penalty": -1,
      "repetition_penalty": 1.25, "logit_bias": {"7": -100, "8": 2.5}, "min_tokens": 1,
      "user": "u"})"));
  EXPECT_EQ(seen.temperature, 2.0F);
  EXPECT_EQ(seen.top_p, 0.25F);
  EXPECT_EQ(seen.top_k, 0);
  EXPECT_EQ(seen.min_p, 0.125F);
  EXPECT_EQ(seen.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(seen.frequency_penalty, 1.5F);
  EXPECT_EQ(seen.presence_penalty, -1.0F);
  EXPECT_EQ(seen.repetition_penalty, 1.25F);
  EXPECT_EQ(seen.min_tokens, 1);
  ASSERT_THAT(*seen.logit_bias, SizeIs(2));
  EXPECT_EQ((*seen.logit_bias)[1].token, 8);
  EXPECT_EQ((*seen.logit_bias)[1].bias, 2.5F);
}

}  // namespace
}  // namespace decant
