#include "server/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/test_api.h"

namespace decant {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kHello = R"({"model": "org/model", "prompt": "hello"})";
constexpr const char* kLong =
    R"({"model": "org/model", "prompt": "hello", "max_tokens": 1000, "stream": true})";

std::string Header(const HttpResponse& response, const std::string& name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

/// Starts a stream of a model that says more than it is asked for, and returns once steps wait,
/// after `tokens` of them.
std::shared_ptr<FakeExchange> StreamAndHold(TestApi& api, uint64_t tokens) {
  api.Say([&api, tokens](const PlannedRow& row) {
    if (row.sample_index == tokens) api.script().hold = true;
    return std::vector<Token>(1000, 'x');
  });
  auto exchange = api.StartPost(kCompletions, kLong);
  while (!api.script().hold) std::this_thread::yield();
  return exchange;
}

Json ErrorOf(const HttpResponse& response) { return Json::parse(response.body)["error"]; }

TEST(ApiTest, PathsAndMethods) {
  TestApi api({});
  EXPECT_EQ(Json::parse(api.Get("/health").body), (Json{{"status", "ok"}}));
  EXPECT_FALSE(Json::parse(api.Get("/version").body)["version"].get<std::string>().empty());
  EXPECT_EQ(api.Get("/v1").status, 404);
  EXPECT_EQ(ErrorOf(api.Get("/v1/nothing\"\xff"))["type"], "not_found_error");

  HttpResponse response = api.Get(kChat);
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(Header(response, "Allow"), "POST");
  response = api.Post("/v1/models", "{}");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(Header(response, "Allow"), "GET, HEAD");

  const auto exchange = api.Start({.method = "POST",
                                   .path = kCompletions,
                                   .query = {},
                                   .headers = {{"Content-Type", "text/plain"}},
                                   .body = kHello});
  EXPECT_EQ(exchange->response().status, 415);
}

TEST(ApiTest, PagesOfOthers) {
  TestApi api({.api_keys = {"k"}});
  api->AddPage("/metrics", [](const HttpRequest& request) {
    return HttpResponse{.content_type = "text/plain", .body = "query " + request.query};
  });
  const auto exchange = api.Start({.method = "GET", .path = "/metrics", .query = "a=1"});
  EXPECT_EQ(exchange->response().body, "query a=1");
  EXPECT_EQ(api.Post("/metrics", "{}").status, 405);
}

TEST(ApiTest, Models) {
  TestApi api({});
  const Json list = Json::parse(api.Get("/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  ASSERT_THAT(list["data"], SizeIs(2));
  EXPECT_EQ(list["data"][0]["id"], kModelName);
  EXPECT_EQ(list["data"][0]["max_model_len"], 2000);
  EXPECT_EQ(Json::parse(api.Get("/v1/models/org/model").body), list["data"][0]);
  EXPECT_EQ(Json::parse(api.Get("/v1/models/org%2Fmodel").body), list["data"][0]);
  for (const char* path : {"/v1/models/", "/v1/models/other", "/v1/models/org%2", "/v1/models/%",
                           "/v1/models/../../etc/passwd", "/v1/models/..%2f..%2fetc%2fpasswd",
                           "/v1/models/org/model/../model", "/v1/models/org/model%00"}) {
    EXPECT_EQ(ErrorOf(api.Get(path))["code"], "model_not_found") << path;
  }
  const HttpResponse response = api.Post(kCompletions, R"({"model": "gpt", "prompt": "a"})");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(ErrorOf(response)["code"], "model_not_found");
  EXPECT_EQ(api.Answer(kCompletions, {{"model", "alias"}, {"prompt", "a"}})["model"], "alias");
}

TEST(ApiTest, KeysAreAskedFor) {
  TestApi api({.api_keys = {"first", "second"}});
  const auto status = [&](std::vector<HttpHeader> headers) {
    const auto exchange = api.Start(
        {.method = "GET", .path = "/v1/models", .query = {}, .headers = std::move(headers)});
    return exchange->response().status;
  };
  EXPECT_EQ(status({{"Authorization", "Bearer first"}}), 200);
  EXPECT_EQ(status({{"authorization", "bearer second"}}), 200);
  for (const char* value :
       {"", "Bearer", "Bearer ", "Bearer firs", "Bearer firstt", "Bearer first ", "Basic first",
        "first", "Bearer firstfirst", "Bearer secon\xff"}) {
    EXPECT_EQ(status({{"Authorization", value}}), 401) << value;
  }
  EXPECT_EQ(status({}), 401);
  const HttpResponse response = api.Post(kCompletions, kHello);
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(Header(response, "WWW-Authenticate"), "Bearer");
  EXPECT_EQ(ErrorOf(response)["type"], "authentication_error");
  EXPECT_EQ(api.Post("/tokenize", "{}").status, 401);
  EXPECT_EQ(api.Get("/health").status, 200);
  EXPECT_EQ(api.Get("/version").status, 200);
}

TEST(ApiTest, TokenizesAndBack) {
  TestApi api({});
  EXPECT_EQ(Json::parse(api.Post("/tokenize", R"({"prompt": "he<|im_end|>é"})").body),
            Json::parse(R"({"count": 4, "max_model_len": 2000, "tokens": [256, 258, 195, 169],
                            "token_strs": null})"));
  EXPECT_EQ(Json::parse(api.Post("/tokenize", R"({"prompt": "", "model": "alias",
                            "return_token_strs": true})")
                            .body)["token_strs"],
            Json::array());
  const Json chat = Json::parse(
      api.Post("/tokenize", R"({"messages": [{"role": "user", "content": "hi"}]})").body);
  const Json asked = Json{{"tokens", chat["tokens"]}};
  const Json text = Json::parse(api.Post("/detokenize", asked.dump()).body);
  EXPECT_THAT(text["prompt"].get<std::string>(),
              HasSubstr("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"));
  for (const char* body :
       {"{}", R"({"prompt": 1})", R"({"prompt": "a", "messages": []})", R"({"messages": []})",
        R"({"prompt": "a", "tools": []})", R"({"prompt": "a", "model": "x"})",
        R"({"messages": [{"role": "user"}], "add_special_tokens": true})", R"({"text": "a"})"}) {
    EXPECT_NE(api.Post("/tokenize", body).status, 200) << body;
  }
  for (const char* body :
       {"{}", R"({"tokens": "a"})", R"({"tokens": [1, -1]})", R"({"tokens": [259]})",
        R"({"tokens": [[1]]})", R"({"tokens": [1.5]})"}) {
    EXPECT_EQ(ErrorOf(api.Post("/detokenize", body))["param"], "tokens") << body;
  }
}

TEST(ApiTest, TheQueueIsBounded) {
  TestApi api({.rows = 2, .max_queued_requests = 3});
  api.script().hold = true;
  std::vector<std::shared_ptr<FakeExchange>> accepted;
  for (int i = 0; i < 5; ++i) accepted.push_back(api.StartPost(kCompletions, kHello));
  const HttpResponse response = api.Post(kCompletions, kHello);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(Header(response, "Retry-After"), "1");
  EXPECT_EQ(ErrorOf(response)["type"], "rate_limit_error");
  EXPECT_EQ(api.Post(kChat, R"({"model": "alias", "messages": [{"role": "user", "content": "a"}]})")
                .status,
            429);
  // What can never fit is no matter of waiting.
  EXPECT_EQ(api.Post(kCompletions, R"({"model": "alias", "prompt": ["a","b","c"], "n": 2})").status,
            400);
  api.script().hold = false;
  for (const auto& exchange : accepted) {
    exchange->Wait();
    EXPECT_EQ(exchange->response().status, 200);
  }
  api.ExpectIdle();
  EXPECT_EQ(api.Post(kCompletions, kHello).status, 200);
}

TEST(ApiTest, AClientThatGoesTakesItsRequestsAlong) {
  TestApi api({.num_pages = 1000});
  api.Say(std::string(1000, 'x'));
  for (const bool noticed : {true, false}) {
    const auto exchange = api.StartPost(
        kCompletions, R"({"model": "alias", "prompt": ["a", "b"], "n": 2, "max_tokens": 1000,
                          "stream": true})");
    exchange->WaitForBytes();
    exchange->Go(noticed);
    api.ExpectIdle();
  }
  // Before its first token, and where it waits for a whole answer.
  api.script().hold = true;
  const auto early = api.StartPost(kCompletions, kLong);
  const auto whole = api.StartPost(kCompletions, kHello);
  early->Go(true);
  whole->Go(true);
  api.script().hold = false;
  api.ExpectIdle();
  EXPECT_EQ(early->bytes(), "");
  EXPECT_GT(api.engine().Stats().count(FinishReason::kCancelled), 0U);
}

TEST(ApiTest, ShutdownLetsStreamsFinish) {
  TestApi api({});
  api.script().hold = true;
  const auto running = api.StartPost(kCompletions, kHello);
  api->BeginShutdown();
  const HttpResponse response = api.Post(kCompletions, kHello);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(Header(response, "Retry-After"), "1");
  EXPECT_EQ(ErrorOf(response)["type"], "service_unavailable_error");
  EXPECT_EQ(api.Get("/health").status, 503);
  EXPECT_EQ(api.Get("/version").status, 200);
  api.script().hold = false;
  running->Wait();
  EXPECT_EQ(running->response().status, 200);
}

TEST(ApiTest, AFailedDeviceIsToldOf) {
  TestApi api({});
  const auto streaming = StreamAndHold(api, 5);
  const auto waiting = api.StartPost(kCompletions, kLong);
  api.script().fail = true;
  streaming->Wait();
  const std::vector<Json> events = TestApi::ParseEvents(streaming->bytes());
  EXPECT_EQ(events.back()["error"]["type"], "server_error");
  EXPECT_THAT(events.back()["error"]["message"].get<std::string>(),
              HasSubstr("the device is gone"));
  waiting->Wait();
  EXPECT_FALSE(waiting->streamed());
  EXPECT_EQ(waiting->response().status, 500);
  EXPECT_EQ(api.Get("/health").status, 503);
  EXPECT_EQ(api.Post(kCompletions, kHello).status, 503);
}

/// As NaN among its logits makes it: the stream ends with an error event, and nobody else notices.
TEST(ApiTest, ARequestThatCannotBeComputedFailsAlone) {
  TestApi api({});
  const auto other = StreamAndHold(api, 5);
  api.script().failing_index = 3;  // which the other one has passed
  const auto failing = api.StartPost(kCompletions, kLong);
  const auto whole = api.StartPost(kCompletions, kHello);
  api.Say([](const PlannedRow&) { return std::vector<Token>(50, 'x'); });
  api.script().hold = false;
  failing->Wait();
  const std::vector<Json> events = TestApi::ParseEvents(failing->bytes());
  ASSERT_THAT(events, SizeIs(4)) << "three tokens and the error";
  EXPECT_EQ(events.back()["error"]["type"], "server_error");
  EXPECT_EQ(events.back()["error"]["message"], "the request has failed: no numbers");
  whole->Wait();
  EXPECT_EQ(whole->response().status, 500);
  EXPECT_EQ(ErrorOf(whole->response())["message"], "the request has failed: no numbers");

  other->Wait();
  EXPECT_EQ(TestApi::ParseEvents(other->bytes()).back()["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(api.Get("/health").status, 200);
  api.script().failing_index = -1;
  EXPECT_EQ(api.Post(kCompletions, kHello).status, 200);
  api.ExpectIdle();
}

TEST(ApiTest, AStoppedEngineEndsItsStreams) {
  TestApi api({});
  const auto exchange = StreamAndHold(api, 5);
  std::thread stop([&] { api.engine().Stop(); });
  while (api.engine().Health().ok()) std::this_thread::yield();
  api.script().hold = false;
  stop.join();
  exchange->Wait();
  const std::vector<Json> events = TestApi::ParseEvents(exchange->bytes());
  EXPECT_EQ(events.back()["error"]["type"], "service_unavailable_error");
}

/// Counts what it is told.
struct CountingObserver : RequestObserver {
  void OnFirstToken(const SampleTimes& times) override {
    EXPECT_GT(times.arrived, 0);
    EXPECT_GE(times.first_token, times.arrived);
    ++first_tokens;
  }
  void OnTokenGap(double seconds) override {
    EXPECT_GE(seconds, 0);
    ++gaps;
  }
  void OnEnd(const SampleTimes& times, FinishReason reason, int32_t prompt_tokens,
             int32_t generated_tokens) override {
    EXPECT_GE(times.last_token, times.first_token);
    EXPECT_GE(times.ended, times.last_token);
    EXPECT_EQ(reason, FinishReason::kEndOfText);
    EXPECT_EQ(prompt_tokens, 4);
    EXPECT_EQ(generated_tokens, 5);  // he l l o and the end
    ++ends;
  }

  std::atomic<int> first_tokens = 0;
  std::atomic<int> gaps = 0;
  std::atomic<int> ends = 0;
};

TEST(ApiTest, TheObserverHearsOfEverySample) {
  CountingObserver observer;
  TestApi api({.observer = &observer});
  api.Post(kCompletions, R"({"model": "alias", "prompt": "hello", "n": 3})");
  EXPECT_EQ(observer.first_tokens, 3);
  EXPECT_EQ(observer.gaps, 12);
  EXPECT_EQ(observer.ends, 3);
}

TEST(ApiTest, ManyThreadsAtOnce) {
  TestApi api({.max_queued_requests = 1000, .num_pages = 2000});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&api, thread] {
      for (int i = 0; i < 30; ++i) {
        const bool stream = (i + thread) % 2 == 0;
        Json fields = {{"model", "alias"}, {"prompt", "hello"}, {"stream", stream}, {"n", 2}};
        const auto exchange = api.StartPost(kCompletions, fields.dump());
        if (i % 5 == 0) {
          exchange->Go(true);
          continue;
        }
        exchange->Wait();
        EXPECT_EQ(exchange->streamed(), stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  api.ExpectIdle();
}

}  // namespace
}  // namespace decant
