#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "engine/completion.h"
#include "engine/test_engine.h"

namespace decant {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using std::chrono::microseconds;

/// A request whose answer differs from that of other seeds.
GenerateRequest MakeRequest(uint64_t seed, int32_t prompt_len, int32_t budget) {
  GenerateRequest request{.max_new_tokens = budget};
  const CounterRng rng(seed);
  for (int32_t i = 0; i < prompt_len; ++i) {
    request.prompt.push_back(static_cast<Token>(rng.Below(static_cast<uint64_t>(i), 15)));
  }
  request.sampling = {.temperature = 1.0F, .seed = seed};
  return request;
}

std::future<Completion> Collect(TestEngine& engine, const GenerateRequest& request) {
  return SubmitAndCollect(*engine, request).value();
}

void ExpectAnswer(const Completion& completion, const TestEngine::Answer& answer) {
  EXPECT_EQ(completion.tokens, answer.tokens);
  EXPECT_EQ(completion.text, answer.text);
  EXPECT_EQ(FinishReasonName(completion.finish), FinishReasonName(answer.finish));
  EXPECT_TRUE(completion.status.ok());
}

TEST(EngineTest, StreamsTheTokensOneByOne) {
  TestEngine engine({});
  GenerateRequest request = MakeRequest(3, 11, 6);
  request.ignore_end_of_text = true;
  const TestEngine::Answer answer = engine.Reference(request);
  std::vector<StreamUpdate> updates;
  std::string text;
  request.sink = [&](const StreamUpdate& update) {
    updates.push_back(update);
    text += update.text;
  };
  const int64_t submitted = SteadyNanos();
  const RequestId id = engine->Submit(request).value();
  engine->Drain();
  ASSERT_THAT(updates, SizeIs(6));
  for (size_t i = 0; i < updates.size(); ++i) {
    EXPECT_EQ(updates[i].request, id);
    EXPECT_EQ(updates[i].token, answer.tokens[i]);
    EXPECT_EQ(updates[i].finish.has_value(), i == 5);
    EXPECT_EQ(updates[i].prompt_tokens, 11);
    EXPECT_EQ(updates[i].generated_tokens, static_cast<int32_t>(i) + 1);
    ASSERT_TRUE(updates[i].admitted_time);
    EXPECT_GE(*updates[i].admitted_time, submitted);
    EXPECT_EQ(*updates[i].admitted_time, *updates[0].admitted_time);
    EXPECT_LE(*updates[i].admitted_time, updates[i].time);
    if (i > 0) {
      EXPECT_GE(updates[i].time, updates[i - 1].time);
    }
  }
  EXPECT_EQ(updates[5].finish, FinishReason::kBudget);
  EXPECT_EQ(text, answer.text);
}

TEST(EngineTest, EndsAtBudgetEndOfTextAndStopStringsAsTheReferenceDoes) {
  TestEngine engine({});
  std::vector<GenerateRequest> requests;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    GenerateRequest request =
        MakeRequest(seed, 1 + static_cast<int32_t>(seed % 30), 1 + static_cast<int32_t>(seed % 23));
    request.ignore_end_of_text = seed % 3 == 0;
    if (seed % 2 == 0) request.stop_strings = {"ab", "hc", "gé", "fa b"};
    requests.push_back(request);
  }
  std::vector<std::future<Completion>> completions;
  completions.reserve(requests.size());
  for (const GenerateRequest& request : requests) completions.push_back(Collect(engine, request));
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectAnswer(completions[i].get(), engine.Reference(requests[i]));
  }
  engine->Stop();
  const EngineStats stats = engine->Stats();
  EXPECT_GT(stats.count(FinishReason::kBudget), 20);
  EXPECT_GT(stats.count(FinishReason::kEndOfText), 20);
  EXPECT_GT(stats.count(FinishReason::kStopString), 20);
  EXPECT_EQ(stats.pages_in_use, 0);
}

TEST(EngineTest, ARequestsAnswerDoesNotDependOnItsBatchMates) {
  const GenerateRequest request = MakeRequest(77, 9, 20);
  TestEngine alone({});
  const Completion lonely = Collect(alone, request).get();
  TestEngine crowded({.num_pages = 400, .page_size = 1, .max_batch = 8, .chunk_tokens = 3});
  std::vector<std::future<Completion>> others;
  for (uint64_t seed = 0; seed < 10; ++seed)
    others.push_back(Collect(crowded, MakeRequest(seed, 12, 9)));
  const Completion mixed = Collect(crowded, request).get();
  EXPECT_EQ(lonely.tokens, mixed.tokens);
  EXPECT_EQ(lonely.text, mixed.text);
}

TEST(EngineTest, EachSampleGetsWhatItsSeedGetsAlone) {
  std::map<FinishReason, int> finishes;
  for (const int32_t page_size : {1, 4, 16}) {
    TestEngine engine({.num_pages = 480 / page_size, .page_size = page_size, .max_batch = 8});
    std::vector<GenerateRequest> requests;
    std::vector<std::future<std::vector<Completion>>> futures;
    for (uint64_t seed = 0; seed < 30; ++seed) {
      GenerateRequest request = MakeRequest(seed, 1 + static_cast<int32_t>(seed * 3 % 40),
                                            1 + static_cast<int32_t>(seed % 23));
      request.samples = 1 + static_cast<int32_t>(seed % 5);
      if (seed % 2 == 0) request.stop_strings = {"ab", "hc", "gé"};
      requests.push_back(request);
      futures.push_back(SubmitAndCollectSamples(*engine, request).value());
    }
    uint64_t samples = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<Completion> completions = futures[i].get();
      ASSERT_EQ(std::ssize(completions), requests[i].samples);
      GenerateRequest alone = requests[i];
      for (const Completion& completion : completions) {
        EXPECT_EQ(completion.sample, &completion - completions.data());
        alone.sampling.seed = SampleSeed(requests[i].sampling.seed, completion.sample);
        ExpectAnswer(completion, engine.Reference(alone));
        ++finishes[completion.finish];
        ++samples;
      }
    }
    engine->Stop();
    EXPECT_EQ(engine->Stats().accepted, samples);
    EXPECT_EQ(engine->Stats().pages_in_use, 0);
  }
  EXPECT_GT(finishes[FinishReason::kBudget], 10);
  EXPECT_GT(finishes[FinishReason::kEndOfText], 10);
  EXPECT_GT(finishes[FinishReason::kStopString], 10);
}

TEST(EngineTest, SamplesComputeASharedBeginningOnce) {
  TestEngine engine({});
  GenerateRequest request = MakeRequest(3, 19, 4);
  request.samples = 3;
  request.ignore_end_of_text = true;
  std::vector<StreamUpdate> updates;
  request.sink = [&](const StreamUpdate& update) { updates.push_back(update); };
  ASSERT_TRUE(engine->Submit(request).ok());
  engine->Drain();
  engine->Stop();
  EXPECT_EQ(engine->Stats().prompt_tokens, 16 + 3 * 3);
  EXPECT_EQ(engine->Stats().generated_tokens, 12);
  EXPECT_EQ(engine->Stats().count(FinishReason::kBudget), 3);
  ASSERT_THAT(updates, SizeIs(12));
  std::map<int32_t, int32_t> generated;
  for (const StreamUpdate& update : updates) {
    EXPECT_EQ(update.prompt_tokens, 19);
    EXPECT_EQ(update.generated_tokens, ++generated[update.sample]);
    EXPECT_EQ(update.finish.has_value(), update.generated_tokens == 4);
  }
  EXPECT_THAT(generated, SizeIs(3));
}

TEST(EngineTest, CancelEndsTheSamplesThatAreLeft) {
  TestEngine engine({.num_pages = 40});
  GenerateRequest request = MakeRequest(0, 5, 30);
  request.samples = 3;
  request.stop_strings = {"c"};
  // Seeds under which sample 1 alone comes to its end early.
  const auto length = [&](int32_t sample) {
    GenerateRequest alone = request;
    alone.sampling.seed = SampleSeed(request.sampling.seed, sample);
    return engine.Reference(alone).tokens.size();
  };
  while (length(1) > 4 || length(0) < 12 || length(2) < 12) ++request.sampling.seed;
  std::vector<std::pair<int32_t, FinishReason>> finishes;
  request.sink = [&](const StreamUpdate& update) {
    if (update.sample == 0 && update.generated_tokens == 6 && !update.finish) {
      engine->Cancel(update.request);
    }
    if (update.finish) finishes.emplace_back(update.sample, *update.finish);
  };
  ASSERT_TRUE(engine->Submit(request).ok());
  engine->Drain();
  EXPECT_THAT(finishes, SizeIs(3));
  EXPECT_EQ(finishes[0].first, 1);
  EXPECT_NE(finishes[0].second, FinishReason::kCancelled);
  EXPECT_EQ(finishes[1], std::pair(0, FinishReason::kCancelled));
  EXPECT_EQ(finishes[2], std::pair(2, FinishReason::kCancelled));
  engine->Stop();
  EXPECT_EQ(engine->Stats().pages_in_use, 0);
}

TEST(EngineTest, RefusesBadRequestsByNameAndGoesOn) {
  TestEngine engine({});
  const auto refusal = [&](auto change) {
    GenerateRequest request = MakeRequest(1, 4, 4);
    request.sink = [](const StreamUpdate&) { FAIL() << "a refused request was answered"; };
    change(request);
    return engine->Submit(std::move(request)).status().message();
  };
  using Request = GenerateRequest;
  EXPECT_EQ(refusal([](Request& r) { r.sink = nullptr; }), "the request has no sink");
  EXPECT_EQ(refusal([](Request& r) { r.prompt.clear(); }), "the prompt has no tokens");
  EXPECT_EQ(refusal([](Request& r) { r.prompt[2] = 15; }),
            "prompt token 2 is 15: the vocabulary has 15");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.temperature = -1; }),
            "temperature is -1: allowed is a finite number of at least 0");
  EXPECT_EQ(refusal([](Request& r) { r.max_new_tokens = 93; }),
            "a prompt of 4 tokens and a budget of 93 need 25 pages of 4: the pool has 24");
  EXPECT_EQ(refusal([](Request& r) { r.stop_strings = {"a", ""}; }), "stop string 1 is empty");
  EXPECT_EQ(refusal([](Request& r) { r.samples = 0; }),
            "samples is 0: allowed are 1 to 4 (max_batch)");
  EXPECT_EQ(refusal([](Request& r) { r.samples = std::numeric_limits<int32_t>::max(); }),
            "samples is 2147483647: allowed are 1 to 4 (max_batch)");
  const GenerateRequest good = MakeRequest(1, 4, 4);
  ExpectAnswer(Collect(engine, good).get(), engine.Reference(good));
  EXPECT_EQ(engine->Stats().accepted, 1);
}

TEST(EngineTest, ServesTokensWithoutATokenizer) {
  FakeForward forward(8, 4, 2, 15);
  EngineConfig config;
  config.scheduler = {.max_batch = 2, .chunk_tokens = 4, .limits = {.max_model_len = 32}};
  config.num_pages = 8;
  config.page_size = 4;
  const auto engine =
      Engine::Create(config, std::make_unique<FakeStepRunner>(forward, FakeStepRunner::Options{}),
                     nullptr)
          .value();
  GenerateRequest request = MakeRequest(5, 3, 7);
  const Completion completion = SubmitAndCollect(*engine, request).value().get();
  EXPECT_THAT(completion.tokens, SizeIs(7));
  EXPECT_EQ(completion.text, "");
  request.stop_strings = {"x"};
  EXPECT_EQ(SubmitAndCollect(*engine, request).status().message(),
            "stop strings need a tokenizer; this engine has none");
}

TEST(EngineTest, CreateRefusesABadConfig) {
  FakeForward forward(8, 4, 2, 15);
  const auto refusal = [&](auto change) {
    EngineConfig config;
    config.scheduler.limits.max_model_len = 32;
    config.num_pages = 8;
    change(config);
    return Engine::Create(config,
                          std::make_unique<FakeStepRunner>(forward, FakeStepRunner::Options{}),
                          nullptr)
        .status()
        .message();
  };
  EXPECT_EQ(refusal([](EngineConfig&) {}), "");
  EXPECT_EQ(refusal([](EngineConfig& c) { c.page_size = 0; }),
            "a page of 0 slots: allowed are 1 to 65536");
  EXPECT_THAT(refusal([](EngineConfig& c) { c.num_pages = 0; }), HasSubstr("a pool of 0 pages"));
  EXPECT_THAT(refusal([](EngineConfig& c) { c.scheduler.max_batch = 0; }), HasSubstr("max_batch"));
}

TEST(EngineTest, CancelEndsWaitingAndRunningRequestsOnce) {
  TestEngine engine({.max_batch = 1});
  std::promise<void> started;
  std::promise<void> cancelled;
  std::vector<std::optional<FinishReason>> running_updates;
  GenerateRequest running = MakeRequest(1, 4, 90);
  running.ignore_end_of_text = true;
  running.sink = [&](const StreamUpdate& update) {
    running_updates.push_back(update.finish);
    if (running_updates.size() > 1) return;
    started.set_value();
    cancelled.get_future().wait();  // Holds the loop, so that the cancels come in time.
  };
  const RequestId running_id = engine->Submit(running).value();
  std::vector<std::optional<FinishReason>> waiting_updates;
  GenerateRequest waiting = MakeRequest(2, 4, 4);
  waiting.sink = [&](const StreamUpdate& update) { waiting_updates.push_back(update.finish); };
  const RequestId waiting_id = engine->Submit(waiting).value();
  started.get_future().wait();
  engine->Cancel(waiting_id);
  engine->Cancel(running_id);
  engine->Cancel(running_id);
  engine->Cancel(12345);
  cancelled.set_value();
  engine->Drain();
  EXPECT_THAT(waiting_updates, ElementsAre(FinishReason::kCancelled));
  EXPECT_THAT(running_updates, ElementsAre(std::nullopt, FinishReason::kCancelled));
  engine->Cancel(running_id);
  engine->Stop();
  EXPECT_EQ(engine->Stats().count(FinishReason::kCancelled), 2);
  EXPECT_EQ(engine->Stats().pages_in_use, 0);
}

TEST(EngineTest, ASinkMaySubmitAndCancel) {
  TestEngine engine({});
  std::promise<FinishReason> second_finished;
  GenerateRequest second = MakeRequest(2, 4, 90);
  second.ignore_end_of_text = true;
  second.sink = [&](const StreamUpdate& update) {
    if (update.generated_tokens == 1) engine->Cancel(update.request);
    if (update.finish) second_finished.set_value(*update.finish);
  };
  GenerateRequest first = MakeRequest(1, 4, 1);
  first.sink = [&](const StreamUpdate&) { EXPECT_TRUE(engine->Submit(second).ok()); };
  ASSERT_TRUE(engine->Submit(first).ok());
  EXPECT_EQ(second_finished.get_future().get(), FinishReason::kCancelled);
}

TEST(EngineTest, DrainFinishesWhatWasAcceptedAndRefusesTheRest) {
  TestEngine engine({.runner = {.step_time = microseconds(50)}});
  std::vector<GenerateRequest> requests;
  std::vector<std::future<Completion>> completions;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    requests.push_back(MakeRequest(seed, 10, 10));
    completions.push_back(Collect(engine, requests.back()));
  }
  EXPECT_TRUE(engine->Health().ok());
  engine->Drain();
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(completions[i].wait_for(microseconds(0)), std::future_status::ready);
    ExpectAnswer(completions[i].get(), engine.Reference(requests[i]));
  }
  EXPECT_EQ(SubmitAndCollect(*engine, requests[0]).status().ToString(),
            "failed precondition: the engine is draining");
  EXPECT_FALSE(engine->Health().ok());
  EXPECT_EQ(engine->Stats().running, 0);
  EXPECT_EQ(engine->Stats().waiting, 0);
}

TEST(EngineTest, DrainReturnsOnceEveryStepIsCounted) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    TestEngine engine({});
    GenerateRequest request = MakeRequest(seed, 5, 3);
    request.ignore_end_of_text = true;
    const std::future<Completion> completion = Collect(engine, request);
    engine->Drain();
    const EngineStats stats = engine->Stats();
    ASSERT_EQ(stats.generated_tokens, 3) << seed;
    ASSERT_EQ(stats.loaded_steps + stats.pure_decode_steps, engine->Steps().size()) << seed;
    ASSERT_EQ(stats.pages_in_use, 0) << seed;
  }
}

/// Holds the loop at the request's first token until the engine is told to stop: no other thread
/// comes too late for that.
std::future<FinishReason> SubmitAndHold(TestEngine& engine) {
  auto finish = std::make_shared<std::promise<FinishReason>>();
  GenerateRequest request = MakeRequest(1, 4, 80);
  request.ignore_end_of_text = true;
  request.sink = [&held = *engine, finish](const StreamUpdate& update) {
    while (held.Health().ok()) std::this_thread::yield();
    if (update.finish) finish->set_value(*update.finish);
  };
  EXPECT_TRUE(engine->Submit(std::move(request)).ok());
  return finish->get_future();
}

TEST(EngineTest, StopCancelsEverythingAndMayBeRepeated) {
  TestEngine engine({.max_batch = 2});
  std::future<FinishReason> held = SubmitAndHold(engine);
  std::vector<std::future<Completion>> completions;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    GenerateRequest request = MakeRequest(seed, 4, 40);
    request.ignore_end_of_text = true;
    completions.push_back(Collect(engine, request));
  }
  engine->Stop();
  engine->Stop();
  engine->Drain();
  EXPECT_EQ(held.get(), FinishReason::kCancelled);
  for (auto& completion : completions) {
    EXPECT_EQ(completion.get().finish, FinishReason::kCancelled);
  }
  EXPECT_EQ(engine->Stats().pages_in_use, 0);
  EXPECT_EQ(SubmitAndCollect(*engine, MakeRequest(1, 4, 4)).status().message(),
            "the engine has stopped");
}

TEST(EngineTest, TheDestructorCancelsWhatIsLeft) {
  TestEngine engine({});
  std::future<FinishReason> held = SubmitAndHold(engine);
  engine.Destroy();
  EXPECT_EQ(held.get(), FinishReason::kCancelled);
}

void ExpectFailure(const FakeStepRunner::Options& runner, const std::string& message) {
  TestEngine engine({.max_batch = 2, .runner = runner});
  std::vector<std::future<Completion>> completions;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GenerateRequest request = MakeRequest(seed, 4, 40);
    request.ignore_end_of_text = true;
    auto completion = SubmitAndCollect(*engine, request);
    if (completion.ok()) completions.push_back(std::move(completion).value());
  }
  ASSERT_FALSE(completions.empty());
  for (auto& future : completions) {
    const Completion completion = future.get();
    EXPECT_EQ(completion.finish, FinishReason::kFailed);
    EXPECT_EQ(completion.status.message(), message);
  }
  EXPECT_EQ(SubmitAndCollect(*engine, MakeRequest(1, 4, 4)).status().message(),
            "the engine has failed: " + message);
  EXPECT_EQ(engine->Health().code(), StatusCode::kInternal);
  engine->Drain();
  engine->Stop();
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.count(FinishReason::kFailed), stats.accepted);
  EXPECT_EQ(stats.pages_in_use, 0);
  EXPECT_EQ(stats.running, 0);
}

TEST(EngineTest, AnErrorOfTheDeviceFailsAllRequests) {
  ExpectFailure({.step_time = microseconds(100), .failing_wait = 5}, "the device died in step 5");
  ExpectFailure({.step_time = microseconds(100), .failing_wait = 0}, "the device died in step 0");
  ExpectFailure({.step_time = microseconds(100), .failing_launch = 5}, "the device refused step 5");
  ExpectFailure({.step_time = microseconds(100), .failing_launch = 0}, "the device refused step 0");
}

/// Writes down the order of calls.
class LoggingRunner : public StepRunner {
 public:
  LoggingRunner(FakeForward& forward, std::vector<std::string>& log)
      : runner_(forward, {}), log_(log) {}

  Expected<Ticket> Launch(const StepPlan& plan) override {
    log_.push_back(fmt::format("L{}", plan.step));
    return runner_.Launch(plan);
  }
  Status Wait(Ticket ticket, StepResult& result) override {
    log_.push_back(fmt::format("W{}", ticket.step));
    return runner_.Wait(ticket, result);
  }

 private:
  FakeStepRunner runner_;
  std::vector<std::string>& log_;
};

TEST(EngineTest, LaunchesAStepBeforeItWaitsForTheOneBefore) {
  FakeForward forward(8, 4, 2, 15);
  std::vector<std::string> log;
  EngineConfig config;
  config.scheduler.limits.max_model_len = 32;
  config.num_pages = 8;
  config.page_size = 4;
  const auto engine =
      Engine::Create(config, std::make_unique<LoggingRunner>(forward, log), nullptr).value();
  auto completion = SubmitAndCollect(*engine, MakeRequest(1, 3, 4)).value();
  completion.wait();
  engine->Stop();
  EXPECT_THAT(log, ElementsAre("L0", "L1", "W0", "L2", "W1", "L3", "W2", "W3"));
}

TEST(EngineTest, StepRecordsAddUp) {
  TestEngine engine(
      {.max_batch = 2, .chunk_tokens = 5, .runner = {.step_time = microseconds(300)}});
  std::vector<std::future<Completion>> completions;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    GenerateRequest request = MakeRequest(seed, 12, 10);
    request.ignore_end_of_text = true;
    completions.push_back(Collect(engine, request));
  }
  engine->Drain();
  engine->Stop();
  const EngineStats stats = engine->Stats();
  const std::vector<StepRecord> records = engine->Steps();
  ASSERT_EQ(records.size(), stats.steps());
  int32_t prompt_tokens = 0;
  int32_t decode_tokens = 0;
  uint64_t pure_decode_steps = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const StepRecord& record = records[i];
    EXPECT_EQ(record.step, i);
    EXPECT_LE(record.prompt_tokens, 5);
    EXPECT_GE(record.cached_tokens, record.prompt_tokens + record.decode_tokens);
    EXPECT_THAT(record.pages_in_use, AnyOf(6, 12)) << "22 positions on pages of 4, a row or two";
    EXPECT_GE(record.wait, 200e-6);
    EXPECT_GE(record.duration, 200e-6);
    EXPECT_GE(record.end - record.begin,
              std::llround(1e9 * (record.plan + record.launch + record.wait)));
    EXPECT_GT(record.host(), 0.0);
    prompt_tokens += record.prompt_tokens;
    decode_tokens += record.decode_tokens;
    pure_decode_steps += record.pure_decode() ? 1 : 0;
  }
  EXPECT_EQ(prompt_tokens, 36);
  EXPECT_EQ(decode_tokens, 27) << "the first of ten tokens comes from the prompt";
  EXPECT_EQ(stats.prompt_tokens, 36);
  EXPECT_EQ(stats.generated_tokens, 30);
  EXPECT_EQ(stats.pure_decode_steps, pure_decode_steps);
  EXPECT_GT(stats.loaded_steps, 0);
  EXPECT_EQ(records.front().cached_tokens, 5);
}

TEST(EngineDeathTest, ASinkMayNotStopItsEngine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        TestEngine engine({});
        GenerateRequest request = MakeRequest(1, 4, 4);
        request.sink = [&](const StreamUpdate&) { engine->Stop(); };
        EXPECT_TRUE(engine->Submit(request).ok());
        engine->Drain();
      },
      "Stop on the loop thread");
}

}  // namespace
}  // namespace decant
