// The JSON of each endpoint: the first byte chooses one, the rest is the body. Every body gets one
// answer, in the form of OpenAI's API and never a 5xx; a stream says what the same request says as
// a whole; and then the engine is idle.

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/testing/fuzz_input.h"
#include "server/test_api.h"

namespace decant {
namespace {

constexpr std::array kPaths = {"/v1/chat/completions", "/v1/completions", "/tokenize",
                               "/detokenize"};

/// A choice's text and how it ended.
using Said = std::pair<std::string, std::string>;

/// A model whose words are the client's: the last turn of a conversation, but for what opens the
/// answer, or a whole prompt without control tokens.
std::vector<Token> Repeat(const PlannedRow& row, Token first_control) {
  constexpr size_t kOpening = 12;  // longer than "assistant\n"
  std::vector<Token> turn;
  std::vector<Token> words;
  for (const Token token : row.prompt) {
    if (token < first_control) {
      words.push_back(token);
      continue;
    }
    if (words.size() > kOpening) turn = std::move(words);
    words.clear();
  }
  return turn.empty() ? words : turn;
}

TestApi& Server() {
  static TestApi server(TestApi::Options{.max_queued_requests = 64, .max_model_len = 1024});
  static const bool ready = [] {
    SetLogLevel(LogLevel::kOff);
    GTEST_FLAG_SET(throw_on_failure, true);  // what test_api.h expects ends the run, too
    const Token first_control = *server.tokenizer().TokenId("<|im_start|>");
    server.Say([first_control](const PlannedRow& row) { return Repeat(row, first_control); });
    return true;
  }();
  DECANT_CHECK(ready);
  return server;
}

void CheckError(const HttpResponse& response) {
  DECANT_CHECK(response.status >= 400 && response.status < 500, "{}", response.status);
  const Json error = Json::parse(response.body).at("error");
  DECANT_CHECK(error.size() == 4 && !error.at("message").get<std::string>().empty());
  for (const char* key : {"param", "code"}) {
    DECANT_CHECK(error.at(key).is_null() || error.at(key).is_string());
  }
  const auto type = error.at("type").get<std::string>();
  DECANT_CHECK(type == (response.status == 404   ? kNotFoundError
                        : response.status == 429 ? kRateLimitError
                                                 : kInvalidRequest),
               "{} with {}", response.status, type);
}

void CheckUsage(const Json& usage) {
  const auto prompt = usage.at("prompt_tokens").get<int64_t>();
  const auto completion = usage.at("completion_tokens").get<int64_t>();
  DECANT_CHECK(prompt >= 1 && completion >= 0);
  DECANT_CHECK(usage.at("total_tokens") == prompt + completion);
}

/// The text of a choice or of a stream's part of one.
std::string TextOf(const Json& choice, const char* chat_key) {
  if (!choice.contains(chat_key)) return choice.at("text");
  const Json& message = choice.at(chat_key);
  const bool has_text = message.contains("content") && message.at("content").is_string();
  return has_text ? message.at("content").get<std::string>() : std::string();
}

std::map<int, Said> ReadWhole(const Json& answer) {
  CheckUsage(answer.at("usage"));
  std::map<int, Said> choices;
  for (const Json& choice : answer.at("choices")) {
    const bool is_new = choices
                            .emplace(choice.at("index"),
                                     Said(TextOf(choice, "message"), choice.at("finish_reason")))
                            .second;
    DECANT_CHECK(is_new);
  }
  return choices;
}

std::map<int, Said> ReadStream(const std::vector<Json>& events) {
  std::map<int, Said> choices;
  for (const Json& event : events) {
    DECANT_CHECK(!event.contains("error"), "{}", event.dump());
    for (const Json& choice : event.at("choices")) {
      auto& [text, finish] = choices[choice.at("index")];
      DECANT_CHECK(finish.empty(), "a choice goes on after its end");
      text += TextOf(choice, "delta");
      if (choice.at("finish_reason").is_string()) finish = choice.at("finish_reason");
    }
    if (event.contains("usage") && event.at("usage").is_object()) CheckUsage(event.at("usage"));
  }
  return choices;
}

void CheckChoices(const std::map<int, Said>& choices) {
  DECANT_CHECK(!choices.empty() && choices.rbegin()->first + 1 == static_cast<int>(choices.size()));
  for (const auto& [index, said] : choices) {
    DECANT_CHECK(said.second == "stop" || said.second == "length" || said.second == "tool_calls");
  }
}

/// The same request, as one whole answer, says the same.
void CompareWithWhole(const std::string& path, const std::string& body,
                      const std::map<int, Said>& streamed) {
  Json fields = Json::parse(body);
  fields.erase("stream");
  fields.erase("stream_options");
  const auto exchange = Server().StartPost(path, fields.dump());
  exchange->Wait();
  DECANT_CHECK(exchange->response().status == 200, "{}", exchange->response().body);
  DECANT_CHECK(ReadWhole(Json::parse(exchange->response().body)) == streamed);
}

void CheckTokens(const Json& answer) {
  DECANT_CHECK(answer.at("count") == answer.at("tokens").size());
  for (const Json& token : answer.at("tokens")) {
    DECANT_CHECK(token >= 0 && token < Server().tokenizer().vocab_size());
  }
}

void CheckAnswer(const std::string& path, const std::string& body, FakeExchange& exchange) {
  if (exchange.streamed()) {
    const std::map<int, Said> choices = ReadStream(TestApi::ParseEvents(exchange.bytes()));
    CheckChoices(choices);
    return CompareWithWhole(path, body, choices);
  }
  if (exchange.response().status != 200) return CheckError(exchange.response());
  const Json answer = Json::parse(exchange.response().body);
  if (path == "/tokenize") return CheckTokens(answer);
  if (path == "/detokenize") {
    DECANT_CHECK(answer.at("prompt").is_string());
    return;
  }
  CheckChoices(ReadWhole(answer));
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  decant::testing::FuzzInput input(data, size);
  const std::string path = kPaths[input.Byte() % kPaths.size()];
  const std::string body(input.rest());
  const auto exchange = Server().StartPost(path, body);
  exchange->Wait();
  CheckAnswer(path, body, *exchange);
  Server().ExpectIdle();
  return 0;
}
