#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "server/api.h"
#include "server/json_input.h"
#include "text/test_vocabulary.h"

namespace decant {

/// Records what is sent to a client.
class FakeExchange : public HttpExchange {
 public:
  explicit FakeExchange(HttpRequest request) : request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }

  void Respond(HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(done_ || streamed_) << "answered twice";
    response_ = std::move(response);
    done_ = true;
    changed_.notify_all();
  }
  void BeginStream(std::vector<HttpHeader> /*headers*/) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(done_ || streamed_) << "answered twice";
    streamed_ = true;
  }
  bool Send(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(streamed_ && !done_);
    if (gone_) return false;
    bytes_ += bytes;
    changed_.notify_all();
    return true;
  }
  void EndStream() override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(streamed_ && !done_);
    done_ = true;
    changed_.notify_all();
  }
  void OnGone(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      on_gone_ = callback;
      if (!gone_) return;
    }
    callback();
  }

  /// The client goes away; it is told of if `noticed`.
  void Go(bool noticed) {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
      callback = on_gone_;
    }
    if (noticed && callback) callback();
  }

  /// Waits until the answer has ended.
  void Wait() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return done_; }));
  }
  /// Waits until something has been streamed.
  void WaitForBytes() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !bytes_.empty(); }));
  }

  bool streamed() const { return streamed_; }
  const HttpResponse& response() const { return response_; }
  const std::string& bytes() const { return bytes_; }

 private:
  const HttpRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> on_gone_;
  HttpResponse response_;
  std::string bytes_;
  bool streamed_ = false;
  bool done_ = false;
  bool gone_ = false;
};

/// Gives each row the tokens of a script in turn, then an end of text.
class ScriptedRunner : public StepRunner {
 public:
  /// What the runner and its test share.
  struct Script {
    using Tokens = std::function<std::vector<Token>(const PlannedRow&)>;

    void Set(Tokens tokens) {
      const std::lock_guard lock(mutex);
      tokens_of = std::move(tokens);
    }
    std::vector<Token> Get(const PlannedRow& row) {
      const std::lock_guard lock(mutex);
      return tokens_of(row);
    }

    std::mutex mutex;  ///< Guards tokens_of.
    Tokens tokens_of;
    Token end_of_text = 0;
    std::atomic<bool> hold = false;           ///< Steps wait while it is set.
    std::atomic<bool> fail = false;           ///< The device fails.
    std::atomic<int64_t> failing_index = -1;  ///< The draw at which a request alone fails.
  };

  explicit ScriptedRunner(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  Expected<Ticket> Launch(const StepPlan& plan) override {
    launched_.push_back(&plan);
    return Ticket{plan.step};
  }

  Status Wait(Ticket ticket, StepResult& result) override {
    while (script_->hold && !script_->fail) std::this_thread::yield();
    if (script_->fail) return Error(StatusCode::kInternal, "the device is gone");
    const StepPlan& plan = *launched_.front();
    launched_.pop_front();
    result = {.step = ticket.step};
    for (const PlannedRow& row : plan.rows) {
      if (!row.samples) continue;
      result.tokens.push_back(Sample(row));
      if (script_->failing_index == static_cast<int64_t>(row.sample_index)) {
        result.failures.push_back(
            {.request = row.request, .status = Error(StatusCode::kInternal, "no numbers")});
      }
    }
    return {};
  }

  /// The log-probability of a sample's token number `index`, or a prompt's at `index`.
  static float Logprob(size_t index) { return -0.25F * static_cast<float>(index + 1); }

 private:
  SampledToken Sample(const PlannedRow& row) const {
    const std::vector<Token> tokens = script_->Get(row);
    const size_t index = row.sample_index;
    SampledToken sampled{.request = row.request, .row = row.row};
    sampled.token = index < tokens.size() ? tokens[index] : script_->end_of_text;
    const SamplingParams& sampling = row.sampling;
    if (sampling.logprobs) {
      sampled.logprobs = Position(sampled.token, index, *sampling.logprobs);
    }
    if (sampling.prompt_logprobs && index == 0 && row.sample == 0) {
      for (size_t i = 1; i < row.prompt.size(); ++i) {
        sampled.prompt_logprobs.push_back(Position(row.prompt[i], i, *sampling.prompt_logprobs));
      }
    }
    return sampled;
  }

  static PositionLogprobs Position(Token token, size_t index, int32_t top) {
    PositionLogprobs position{.chosen = {token, Logprob(index)}};
    for (int32_t i = 0; i < top; ++i) {
      position.top.push_back({(token + i) % 256, Logprob(index) - static_cast<float>(i)});
    }
    return position;
  }

  std::shared_ptr<Script> script_;
  std::deque<const StepPlan*> launched_;
};

inline constexpr const char* kModelName = "org/model";

/// An Api over a model that says what it is told to. Its tokens are bytes; the template is that of
/// Qwen2.5.
class TestApi {
 public:
  struct Options {
    std::vector<std::string> api_keys{};
    int32_t rows = 4;
    int32_t max_queued_requests = 8;
    int32_t max_model_len = 2000;
    int32_t num_pages = 400;
    GenerationDefaults defaults{};
    RequestObserver* observer = nullptr;
    std::string chat_template = "qwen2.5";  ///< Of tests/data/chat/templates.
  };

  explicit TestApi(const Options& options) {
    TokenizerData data = MakeByteVocabulary({"h e"});
    for (const char* name : {"<|im_start|>", "<|im_end|>"}) {
      data.tokens.emplace_back(name);
      data.types.push_back(TokenType::kControl);
    }
    tokenizer_ = std::make_shared<const Tokenizer>(Tokenizer::Create(std::move(data)).value());
    script_->end_of_text = *tokenizer_->TokenId("<|im_end|>");
    Say("hello");
    EngineConfig config;
    config.scheduler = {
        .max_batch = options.rows,
        .chunk_tokens = 512,
        .limits = {.max_model_len = options.max_model_len, .vocab_size = tokenizer_->vocab_size()}};
    config.num_pages = options.num_pages;
    config.page_size = 16;
    config.end_of_text = {script_->end_of_text};
    engine_ =
        Engine::Create(std::move(config), std::make_unique<ScriptedRunner>(script_), tokenizer_)
            .value();
    ApiOptions api;
    api.served_names = {kModelName, "alias"};
    api.api_keys = options.api_keys;
    api.max_model_len = options.max_model_len;
    api.vocab_size = tokenizer_->vocab_size();
    api.rows = options.rows;
    api.num_pages = options.num_pages;
    api.page_size = 16;
    api.max_queued_requests = options.max_queued_requests;
    api.defaults = options.defaults;
    api_ = std::make_unique<Api>(std::move(api), *engine_, tokenizer_,
                                 MakePrompter(options.chat_template), options.observer);
  }
  ~TestApi() { engine_->Stop(); }

  /// What every sample says from now on.
  void Say(const std::string& text) {
    Say([tokens = Encode(text)](const PlannedRow&) { return tokens; });
  }
  void Say(ScriptedRunner::Script::Tokens tokens) { script_->Set(std::move(tokens)); }

  std::vector<Token> Encode(const std::string& text) const {
    return tokenizer_->Encode(text, SpecialTokens::kParse);
  }

  /// Hands a request over; its answer may come later.
  std::shared_ptr<FakeExchange> Start(HttpRequest request) {
    auto exchange = std::make_shared<FakeExchange>(std::move(request));
    api_->Handle(exchange);
    return exchange;
  }
  std::shared_ptr<FakeExchange> StartPost(const std::string& path, std::string body) {
    return Start({.method = "POST",
                  .path = path,
                  .query = {},
                  .headers = {{"content-type", "application/json; charset=utf-8"}},
                  .body = std::move(body)});
  }

  HttpResponse Get(const std::string& path) {
    const auto exchange = Start({.method = "GET", .path = path, .query = {}});
    exchange->Wait();
    return exchange->response();
  }
  HttpResponse Post(const std::string& path, std::string body) {
    const auto exchange = StartPost(path, std::move(body));
    exchange->Wait();
    EXPECT_FALSE(exchange->streamed());
    return exchange->response();
  }

  /// The answer to `fields`, with the model's name added; it must be a good one.
  Json Answer(const std::string& path, Json fields) {
    if (!fields.contains("model")) fields["model"] = kModelName;
    const HttpResponse response = Post(path, fields.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }

  /// The events of the same as a stream, [DONE] left out; it must end with it.
  std::vector<Json> Events(const std::string& path, Json fields) {
    fields["model"] = kModelName;
    fields["stream"] = true;
    const auto exchange = StartPost(path, fields.dump());
    exchange->Wait();
    EXPECT_TRUE(exchange->streamed()) << exchange->response().body;
    return ParseEvents(exchange->bytes());
  }

  static std::vector<Json> ParseEvents(std::string bytes) {
    constexpr std::string_view kDone = "data: [DONE]\n\n";
    EXPECT_TRUE(bytes.ends_with(kDone)) << bytes;
    bytes.resize(bytes.size() - kDone.size());
    std::vector<Json> events;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t end = bytes.find("\n\n", begin);
      const std::string line = bytes.substr(begin, end - begin);
      EXPECT_TRUE(line.starts_with("data: {") && line.find('\n') == std::string::npos) << line;
      events.push_back(Json::parse(line.substr(6)));
      begin = end + 2;
    }
    return events;
  }

  Api& operator*() { return *api_; }
  Api* operator->() { return api_.get(); }
  Engine& engine() { return *engine_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  ScriptedRunner::Script& script() { return *script_; }

  /// Waits until nothing runs or waits and all pages are back.
  void ExpectIdle() {
    for (int i = 0; i < 30'000; ++i) {
      const EngineStats stats = engine_->Stats();
      if (stats.running + stats.waiting + stats.pages_in_use == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "the engine is not idle";
  }

 private:
  ChatPrompter MakePrompter(const std::string& name) const {
    std::ifstream file(std::string(DECANT_TEST_DATA "/chat/templates/") + name + ".jinja");
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(source.empty()) << name;
    return ChatPrompter::Create(source, {}, tokenizer_).value();
  }

  std::shared_ptr<ScriptedRunner::Script> script_ = std::make_shared<ScriptedRunner::Script>();
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Api> api_;
};

}  // namespace decant
