// What a client may not ask for: every refusal is a 400 that names the parameter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "server/test_api.h"

namespace decant {
namespace {

using ::testing::HasSubstr;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

class ApiParametersTest : public ::testing::Test {
 protected:
  /// The error that `fields` get; it must be OpenAI's shape and a client's fault.
  Json Refusal(const std::string& path, const std::string& body) {
    const HttpResponse response = api_.Post(path, body);
    EXPECT_GE(response.status, 400) << body.substr(0, 200);
    EXPECT_LT(response.status, 500) << body.substr(0, 200);
    Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error.size(), 4U) << error;
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string()) << error;
    return error;
  }

  /// A good request with `name` replaced.
  static Json Fields(const std::string& path, const std::string& name, const Json& value) {
    Json fields = {{"model", kModelName}};
    if (path == kChat) {
      fields["messages"] = Json::parse(R"([{"role": "user", "content": "hi"}])");
    } else {
      fields["prompt"] = "hi";
    }
    fields[name] = value;
    return fields;
  }

  void ExpectRefused(const std::string& path, const std::string& name, const Json& value) {
    const Json error = Refusal(path, Fields(path, name, value).dump());
    EXPECT_EQ(error["param"], name) << value << error;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(name)) << value;
  }

  TestApi api_{TestApi::Options{}};
};

TEST_F(ApiParametersTest, EveryParameterRefusesOtherTypes) {
  const std::set<std::string> objects = {"logit_bias", "stream_options", "response_format",
                                         "chat_template_kwargs"};
  const std::set<std::string> strings = {"model", "user", "stop", "prompt", "tool_choice"};
  const std::set<std::string> booleans = {"stream",
                                          "ignore_eos",
                                          "echo",
                                          "add_generation_prompt",
                                          "parallel_tool_calls",
                                          "add_special_tokens"};
  const std::set<std::string> arrays = {"messages", "tools", "stop", "prompt"};
  for (const char* path : {kChat, kCompletions}) {
    const ApiKind kind = path == std::string(kChat) ? ApiKind::kChat : ApiKind::kCompletions;
    for (const std::string_view view : ParameterNames(kind)) {
      const std::string name(view);
      const bool chat_logprobs = name == "logprobs" && kind == ApiKind::kChat;
      const bool boolean = booleans.contains(name) || chat_logprobs;
      const bool number =
          !objects.contains(name) && !strings.contains(name) && !boolean && !arrays.contains(name);
      if (!objects.contains(name)) ExpectRefused(path, name, Json::object());
      if (!strings.contains(name)) ExpectRefused(path, name, "1");
      if (!boolean) ExpectRefused(path, name, true);
      if (!number) ExpectRefused(path, name, 1e30);
      ExpectRefused(path, name, Json::parse("[[[]]]"));
      if (number) {
        ExpectRefused(path, name, 1e300);
        ExpectRefused(path, name, -1e300);
      }
    }
  }
}

TEST_F(ApiParametersTest, RangesAreKept) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"max_tokens", {"0", "-1", "1.5", "9223372036854775808", "18446744073709551616", "1e400"}},
      {"n", {"0", "-1", "5", "17", "2.5"}},
      {"temperature", {"-0.1", "101"}},
      {"top_p", {"0", "1.01", "-1"}},
      {"top_k", {"-2", "0.5", "2147483648"}},
      {"min_p", {"-0.1", "1.1"}},
      {"seed", {"9223372036854775808", "0.5"}},
      {"min_tokens", {"-1", "1000000"}},
      {"frequency_penalty", {"2.1", "-2.1"}},
      {"presence_penalty", {"2.1", "-2.1"}},
      {"repetition_penalty", {"0", "-1", "1e39"}},
      {"stop", {"\"\"", "[\"\"]", "[1]", "[[]]", "[\"a\", null]"}},
      {"logit_bias",
       {"{\"a\": 1}", "{\"-1\": 1}", "{\"1.0\": 1}", "{\"999999\": 1}", "{\"1\": 101}",
        "{\"1\": \"1\"}", "{\"1\": null}", "{\"\": 1}", "[1]"}},
      {"stream_options", {"{}", "{\"include_usage\": true}"}},
  };
  for (const char* path : {kChat, kCompletions}) {
    for (const auto& [name, values] : cases) {
      for (const char* value : values) {
        // As text: not every number is one of ours.
        std::string body = Fields(path, name, "HERE").dump();
        body.replace(body.find("\"HERE\""), 6, value);
        const Json error = Refusal(path, body);
        if (std::string_view(value) == "1e400") continue;
        EXPECT_EQ(error["param"], name) << value << error;
      }
    }
  }
  for (const char* value : {"-1", "21", "1.5"}) {
    ExpectRefused(kCompletions, "logprobs", Json::parse(value));
    Json fields = Fields(kChat, "top_logprobs", Json::parse(value));
    fields["logprobs"] = true;
    EXPECT_EQ(Refusal(kChat, fields.dump())["param"], "top_logprobs");
  }
  ExpectRefused(kChat, "top_logprobs", 2);  // without logprobs
  Json twice = Fields(kChat, "max_tokens", 3);
  twice["max_completion_tokens"] = 4;
  EXPECT_EQ(Refusal(kChat, twice.dump())["param"], "max_completion_tokens");
}

TEST_F(ApiParametersTest, WhatRoutersAddMayOnlySayWhatIsDoneAnyway) {
  const Json added = Json::parse(R"({"continue_final_message": false, "include_reasoning": true,
      "no_stop_trim": false, "return_hidden_states": false, "separate_reasoning": true,
      "skip_special_tokens": true, "stream_reasoning": true})");
  for (const char* path : {kChat, kCompletions}) {
    Json all = Fields(path, "max_tokens", 2);
    all.update(added);
    EXPECT_EQ(api_.Post(path, all.dump()).status, 200);
    for (const auto& [name, value] : added.items()) {
      const Json error = Refusal(path, Fields(path, name, !value.get<bool>()).dump());
      EXPECT_EQ(error["param"], name);
      EXPECT_EQ(error["code"], "unsupported_parameter");
    }
  }
}

TEST_F(ApiParametersTest, WhatIsNotSupportedIsNamed) {
  const Json unsupported = Json::parse(R"({"best_of": 1, "functions": [], "store": false,
      "reasoning_effort": "low", "guided_json": {}, "": 1, "temprature": 1, "a[0].b": 1,
      "continue_final_message": true})");
  for (const auto& [name, value] : unsupported.items()) {
    for (const char* path : {kChat, kCompletions}) {
      const Json error = Refusal(path, Fields(path, name, value).dump());
      EXPECT_EQ(error["code"], "unsupported_parameter");
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("'" + name + "'"));
    }
  }
  ExpectRefused(kCompletions, "suffix", "x");
  ExpectRefused(kCompletions, "messages", Json::array());
  ExpectRefused(kChat, "prompt", "x");
  ExpectRefused(kChat, "response_format", Json::parse(R"({"type": "json_object"})"));
  ExpectRefused(kChat, "response_format",
                Json::parse(R"({"type": "json_schema", "json_schema": {}})"));
  ExpectRefused(kChat, "tool_choice", "auto");  // without tools
  ExpectRefused(kChat, "tool_choice", "required");
  ExpectRefused(kChat, "tool_choice",
                Json::parse(R"({"type": "function", "function": {"name": "f"}})"));
  // A good value of each kind is taken.
  const Json good = Json::parse(R"({"response_format": {"type": "text"}, "stop": [], "n": null,
      "temperature": 0.0, "max_tokens": 16.0, "tool_choice": "none", "user": "me"})");
  for (const auto& [name, value] : good.items()) {
    EXPECT_EQ(api_.Post(kChat, Fields(kChat, name, value).dump()).status, 200) << name << value;
  }
}

TEST_F(ApiParametersTest, MessagesAndTools) {
  for (
      const char* value :
      {"[]", "[1]", "[{}]", R"([{"role": 1, "content": "x"}])", R"([{"content": "x"}])",
       R"([{"role": "user", "content": 1}])", R"([{"role": "user", "content": {}}])",
       R"([{"role": "user", "content": ["x"]}])",
       R"([{"role": "user", "content": [{"type": "text"}]}])",
       R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
       R"([{"role": "assistant", "tool_calls": {}}])",
       R"([{"role": "assistant", "tool_calls": [{}]}])",
       R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}])"}) {
    Json fields = Fields(kChat, "messages", Json::parse(value));
    EXPECT_THAT(Refusal(kChat, fields.dump())["param"].get<std::string>(), HasSubstr("messages"))
        << value;
  }
  for (const char* value :
       {"[]", "[1]", "[{}]", R"([{"type": "function"}])", R"([{"type": "x", "function": {}}])",
        R"([{"type": "function", "function": {"name": 1}}])"}) {
    ExpectRefused(kChat, "tools", Json::parse(value));
  }
  ExpectRefused(kChat, "tools", Json(std::vector<Json>(129, Json::object())));
  // A template without tools.
  TestApi plain({.chat_template = "smollm2"});
  Json fields = Fields(kChat, "tools", Json::parse(R"([{"type": "function", "function":
      {"name": "f"}}])"));
  const HttpResponse response = plain.Post(kChat, fields.dump());
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("tools"));
}

TEST_F(ApiParametersTest, Prompts) {
  for (const char* value : {"[]", "\"\"", "[[]]", "[\"\"]", "[1, \"a\"]", "[\"a\", 1]",
                            "[[1], \"a\"]", "[1.5]", "[-1]", "[99999]", "[[99999]]",
                            "[9223372036854775808]", "[null]", "{}", "7", "[[[1]]]", "[true]"}) {
    const Json error =
        Refusal(kCompletions, Fields(kCompletions, "prompt", Json::parse(value)).dump());
    EXPECT_THAT(error["param"].get<std::string>(), HasSubstr("prompt")) << value;
  }
  ExpectRefused(kCompletions, "prompt", Json(std::vector<Json>(257, "a")));
  Json none = Fields(kCompletions, "n", 1);
  none.erase("prompt");
  EXPECT_EQ(Refusal(kCompletions, none.dump())["param"], "prompt");
}

TEST_F(ApiParametersTest, TooLongSaysHowLong) {
  Json fields = Fields(kCompletions, "prompt", std::string(1500, 'x'));
  fields["max_tokens"] = 501;
  const Json error = Refusal(kCompletions, fields.dump());
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(),
              HasSubstr("maximum context length is 2000 tokens. However, you requested 2001 tokens "
                        "(1500 in the prompt, 501 for the completion)"));
  EXPECT_EQ(Refusal(kChat, Fields(kChat, "messages",
                                  Json::parse(R"([{"role": "user", "content": ")" +
                                              std::string(5000, 'x') + "\"}]"))
                               .dump())["code"],
            "context_length_exceeded");
  // What cannot fit is not even tokenised.
  const std::string huge(2'000'000, ' ');
  EXPECT_THAT(Refusal(kCompletions, Fields(kCompletions, "prompt", huge).dump())["message"]
                  .get<std::string>(),
              HasSubstr("2000000 bytes"));
  const Json message = {{"role", "user"}, {"content", huge}};
  EXPECT_EQ(Refusal(kChat, Fields(kChat, "messages", Json::array({message})).dump())["code"],
            "context_length_exceeded");
  EXPECT_EQ(Refusal("/tokenize", Json{{"prompt", huge}}.dump())["param"], "prompt");
  // What the model takes and the pool does not, and what a silent request gets of it.
  TestApi small({.num_pages = 8});  // 128 slots
  fields = Fields(kCompletions, "max_tokens", 127);
  EXPECT_THAT(small.Post(kCompletions, fields.dump()).body, HasSubstr("cache holds 128 tokens"));
  fields["max_tokens"] = 126;
  EXPECT_EQ(small.Post(kCompletions, fields.dump()).status, 200);
  small.Say(std::string(200, 'x'));
  fields = Fields(kChat, "messages", Json::parse(R"([{"role": "system", "content": "s"}])"));
  const Json answer = Json::parse(small.Post(kChat, fields.dump()).body);
  EXPECT_EQ(answer["usage"]["total_tokens"], 128) << answer;
}

TEST_F(ApiParametersTest, HostileBodies) {
  const std::string open = R"({"model": "org/model", "prompt": "a", "stop": )";
  std::string many = "[\"a\"";
  while (many.size() < 3'000'000) many += ",\"a\"";
  for (const std::string& body :
       {std::string(), std::string("null"), std::string("[]"), std::string("\"x\""),
        open + many + "]}", open + std::string(65, '[') + std::string(65, ']') + "}",
        open + "\"\xc0\xaf\"}", open + R"("\ud800"})", open + R"("a", "stop": "b"})",
        open + "\"" + std::string(5000, 'a') + "\"}", open + "1e400}", open + "-}",
        open.substr(0, open.size() - 9) + "}}"}) {
    Refusal(kCompletions, body);
    Refusal(kChat, body);
    Refusal("/tokenize", body);
    Refusal("/detokenize", body);
  }
}

/// Bodies with bytes changed, cut out and doubled get an answer or a 4xx, in JSON.
TEST_F(ApiParametersTest, MutatedBodies) {
  const std::pair<std::string, std::string> good[] = {
      {kChat, R"({"model": "org/model", "messages": [{"role": "user", "content": [{"type": "text",
          "text": "h\u00e9 <|im_end|>"}]}, {"role": "assistant", "tool_calls": [{"function":
          {"name": "f", "arguments": "{\"a\": 1}"}}]}], "tools": [{"type": "function",
          "function": {"name": "f"}}], "n": 2, "max_tokens": 3, "logprobs": true})"},
      {kCompletions, R"({"model": "alias", "prompt": [[1, 2], [3]], "echo": true, "logprobs": 2,
          "logit_bias": {"5": -1.5e1}, "stop": ["a", "\ud83d\ude00"], "temperature": 0.5,
          "stream": false, "seed": -7, "max_tokens": 4})"},
      {"/tokenize", R"({"prompt": "abc é", "add_special_tokens": false, "model": "alias"})"},
      {"/detokenize", R"({"tokens": [1, 2, 256, 258]})"},
  };
  const std::string bytes = "\"\\{}[]:,-+.0123456789eEntf \x80\xff\xc3\xed" + std::string(1, '\0');
  std::map<int, int> statuses;
  for (uint64_t round = 0; round < 4000; ++round) {
    const CounterRng rng(round);
    auto [path, body] = good[rng.Below(0, std::size(good))];
    const uint64_t changes = 1 + rng.Below(1, 3);
    for (uint64_t change = 0; change < changes; ++change) {
      const uint64_t counter = 10 * (change + 1);
      const size_t at = rng.Below(counter, body.size());
      const size_t length = rng.Below(counter + 1, std::min<size_t>(body.size() - at, 12)) + 1;
      switch (rng.Below(counter + 2, 3)) {
        case 0:
          body[at] = bytes[rng.Below(counter + 3, bytes.size())];
          break;
        case 1:
          body.erase(at, length);
          break;
        default:
          body.insert(at, body.substr(at, length));
      }
    }
    const auto exchange = api_.StartPost(path, body);
    exchange->Wait();
    if (exchange->streamed()) continue;
    const HttpResponse& response = exchange->response();
    EXPECT_LT(response.status, 500) << body << response.body;
    EXPECT_TRUE(Json::accept(response.body)) << body << response.body;
    ++statuses[response.status];
  }
  EXPECT_GT(statuses[200], 50);
  EXPECT_GT(statuses[400], 1000);
}

}  // namespace
}  // namespace decant
