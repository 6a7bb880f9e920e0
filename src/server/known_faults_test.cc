// Kinds of faults that other engines had: docs/known-faults.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <set>

#include "server/completion_request.h"
#include "server/same_key.h"
#include "server/test_api.h"
#include "server/tokenize_endpoints.h"

namespace decant {
namespace {

struct Endpoint {
  std::string path;
  std::string body;  ///< A good one.
  std::span<const std::string_view> parameters;
};

std::vector<Endpoint> Endpoints() {
  const std::string message = R"([{"role": "user", "content": "hi"}])";
  return {{"/v1/chat/completions", R"({"model": "org/model", "messages": )" + message + "}",
           ParameterNames(ApiKind::kChat)},
          {"/v1/completions", R"({"model": "org/model", "prompt": "hi"})",
           ParameterNames(ApiKind::kCompletions)},
          {"/tokenize", R"({"prompt": "hi"})", TokenizeParameterNames()},
          {"/detokenize", R"({"tokens": [104, 105]})", DetokenizeParameterNames()}};
}

/// The body with a field set to a JSON text, which need not be a number that our JSON can hold.
std::string With(const Endpoint& endpoint, const std::string& name, const std::string& value) {
  Json body = Json::parse(endpoint.body);
  if (name == "top_logprobs") body["logprobs"] = true;
  body[name] = "HERE";
  std::string text = body.dump();
  return text.replace(text.find("\"HERE\""), 6, value);
}

constexpr const char* kNumbers[] = {"-1",
                                    "2147483648",
                                    "9007199254740993",
                                    "9223372036854775808",
                                    "18446744073709551616",
                                    "1e400",
                                    "-1e400",
                                    "-0.0",
                                    "1.5",
                                    "1e300",
                                    "2147483647.5"};

/// Of those, what a field takes; fields that are not here take none.
const std::map<std::string, std::set<std::string>> kTaken = {
    {"frequency_penalty", {"-1", "-0.0", "1.5"}},
    {"logprobs", {"-0.0"}},  // of completions
    {"min_p", {"-0.0"}},
    {"min_tokens", {"-0.0"}},
    {"presence_penalty", {"-1", "-0.0", "1.5"}},
    {"repetition_penalty", {"1.5"}},
    {"seed", {"-1", "-0.0", "2147483648", "9007199254740993"}},
    {"temperature", {"-0.0", "1.5"}},
    {"top_k", {"-1", "-0.0"}},
    {"top_logprobs", {"-0.0"}}};

TEST(KnownFaultsTest, NoNumberGetsThroughAFieldThatIsNotForIt) {
  TestApi api({});
  int taken = 0;
  int refused = 0;
  for (const Endpoint& endpoint : Endpoints()) {
    ASSERT_EQ(api.Post(endpoint.path, endpoint.body).status, 200) << endpoint.path;
    for (const std::string_view view : endpoint.parameters) {
      const std::string name(view);
      const auto allowed = kTaken.find(name);
      const bool chat_logprobs = name == "logprobs" && endpoint.path == "/v1/chat/completions";
      for (const std::string number : kNumbers) {
        const bool good =
            allowed != kTaken.end() && allowed->second.contains(number) && !chat_logprobs;
        const HttpResponse response = api.Post(endpoint.path, With(endpoint, name, number));
        const std::string what =
            fmt::format("{} {}: {}{}", endpoint.path, name, number, response.body);
        EXPECT_EQ(response.status, good ? 200 : 400) << what;
        ++(good ? taken : refused);
        if (response.status == 200) continue;
        const Json error = Json::parse(response.body)["error"];
        EXPECT_EQ(error.size(), 4U) << what;
        // 1e400 is no number of JSON's as we read it: the body is at fault, not the field.
        if (number.find("e400") == std::string::npos) {
          EXPECT_THAT(error["message"].get<std::string>(), ::testing::HasSubstr(name)) << what;
        }
      }
    }
  }
  EXPECT_GT(taken, 30);
  EXPECT_GT(refused, 400);
}

TEST(KnownFaultsTest, NumbersInsideOfFieldsAreCheckedToo) {
  TestApi api({});
  const std::vector<Endpoint> endpoints = Endpoints();
  const std::vector<std::pair<const Endpoint*, std::pair<std::string, std::string>>> fields = {
      {&endpoints[0], {"messages", R"([{"role": "user", "content": #}])"}},
      {&endpoints[0],
       {"messages", R"([{"role": "user", "content": [{"type": "text", "text": #}]}])"}},
      {&endpoints[0], {"stop", "[#]"}},
      {&endpoints[0], {"tools", "[#]"}},
      {&endpoints[0], {"logit_bias", R"({"#": 1})"}},
      {&endpoints[1], {"prompt", "[#]"}},
      {&endpoints[1], {"prompt", "[[1, #]]"}},
      {&endpoints[1], {"prompt", R"(["a", #])"}},
      {&endpoints[3], {"tokens", "[1, #]"}}};
  for (const auto& [endpoint, field] : fields) {
    for (const std::string number : kNumbers) {
      if (number == "-0.0") continue;  // 0, where a token's id is wanted
      std::string value = field.second;
      value.replace(value.find('#'), 1, number);
      const HttpResponse response = api.Post(endpoint->path, With(*endpoint, field.first, value));
      EXPECT_EQ(response.status, 400) << endpoint->path << " " << value << response.body;
    }
  }
  for (const std::string number : kNumbers) {
    const bool good = number == "-1" || number == "-0.0" || number == "1.5";
    const std::string value = R"({"5": )" + number + "}";
    EXPECT_EQ(api.Post(endpoints[1].path, With(endpoints[1], "logit_bias", value)).status,
              good ? 200 : 400)
        << value;
  }
}

TEST(KnownFaultsTest, ALargeSeedIsExact) {
  std::atomic<uint64_t> seed = 0;  // outlives the engine, whose last step comes after the answer
  TestApi api({});
  api.Say([&](const PlannedRow& row) {
    seed = row.sampling.seed;
    return std::vector<Token>();
  });
  const Endpoint completions = Endpoints()[1];
  ASSERT_EQ(api.Post(completions.path, With(completions, "seed", "9007199254740993")).status, 200);
  EXPECT_EQ(seed, 9007199254740993U);
}

TEST(KnownFaultsTest, AStopListOfThirtyMegabytesCostsLittle) {
  TestApi api({});
  constexpr size_t kBytes = 30'000'000;
  std::string many = "[\"a\"";
  while (many.size() < kBytes) many += ",\"a\"";
  std::string few = "[";
  for (int i = 0; i < 15; ++i) few += '"' + std::string(kBytes / 15, 'a') + "\",";
  few.back() = ']';
  const std::string one = '"' + std::string(kBytes, 'a') + '"';
  for (const std::string& list : {many + "]", few, one}) {
    for (const Endpoint& endpoint : Endpoints()) {
      const std::clock_t before = std::clock();
      const HttpResponse response = api.Post(endpoint.path, With(endpoint, "stop", list));
      EXPECT_EQ(response.status, 400);
      EXPECT_LT(response.body.size(), 1000U) << "the refusal quotes the list";
      const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, 20) << "reading takes time that grows faster than the text";
    }
  }
}

TEST(KnownFaultsTest, DeepJsonIsRefusedInEveryField) {
  TestApi api({});
  for (const Endpoint& endpoint : Endpoints()) {
    for (const std::string_view name : endpoint.parameters) {
      for (const std::string& deep :
           {std::string(100'000, '[') + std::string(100'000, ']'), std::string(1'000'000, '['),
            std::string(63, '[') + std::string(63, ']')}) {
        const HttpResponse response =
            api.Post(endpoint.path, With(endpoint, std::string(name), deep));
        EXPECT_EQ(response.status, 400) << endpoint.path << " " << name;
      }
    }
  }
}

TEST(KnownFaultsTest, IllFormedTextIsRefusedInEveryField) {
  TestApi api({});
  for (const Endpoint& endpoint : Endpoints()) {
    for (const std::string_view name : endpoint.parameters) {
      for (const std::string text :
           {R"("\ud800")", R"("a\udc00b")", R"("\udc00\ud800")", "\"\xc0\xaf\"", "\"\xe0\x80\xaf\"",
            "\"\xf0\x80\x80\xaf\"", "\"\xed\xa0\x80\"", "\"\xf8\x88\x80\x80\x80\"",
            "\"\xe2\x82\""}) {
        const HttpResponse response =
            api.Post(endpoint.path, With(endpoint, std::string(name), text));
        EXPECT_EQ(response.status, 400) << endpoint.path << " " << name << " " << text;
        EXPECT_THAT(response.body, ::testing::HasSubstr("JSON")) << "not refused as ill-formed";
      }
    }
  }
}

/// A text that counts how many of its bytes were looked at.
class CountingText {
 public:
  explicit CountingText(std::string text) : text_(std::move(text)) {}
  size_t size() const { return text_.size(); }
  char operator[](size_t i) const {
    ++reads_;
    return text_[i];
  }
  size_t reads() const { return reads_; }

 private:
  std::string text_;
  mutable size_t reads_ = 0;
};

TEST(KnownFaultsTest, AKeyIsComparedInTimeThatTellsNothing) {
  const std::string key = "sk-0123456789abcdef";
  for (const std::string text :
       {"sk-0123456789abcdef", "sk-0123456789abcdeX", "Xk-0123456789abcdef", "sk-0123456789abcde",
        "sk-0123456789abcdef0", "sk-0123456789abcdefsk-0123456789abcdef", "s", ""}) {
    for (const std::string& expected : {key, std::string()}) {
      const CountingText given(text);
      EXPECT_EQ(SameKey(given, expected), text == expected) << text;
      EXPECT_EQ(given.reads(), given.size()) << text << ": it stopped early";
    }
  }
}

}  // namespace
}  // namespace decant
