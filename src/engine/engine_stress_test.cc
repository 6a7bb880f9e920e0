// Several threads submit and cancel at once; run under the thread sanitizer too.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/test_engine.h"

namespace decant {
namespace {

constexpr int kThreads = 4;
constexpr int kRequestsEach = 60;

/// What came back for one sample of a request.
struct Record {
  std::vector<Token> tokens{};
  std::string text{};
  std::vector<FinishReason> finishes{};
  int updates_after_finish = 0;
};

/// A client of an engine: submits from several threads, cancels some, keeps what comes back.
class Crowd {
 public:
  explicit Crowd(TestEngine& engine) : engine_(engine) {}

  /// Submits from kThreads threads until done or refused; returns once all have ended.
  void Run() {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { SubmitAll(i); });
    for (std::thread& thread : threads) thread.join();
  }

  /// Every sample of an accepted request got exactly one finish, and what the reference says up to
  /// there.
  void Check() {
    const std::lock_guard lock(mutex_);
    uint64_t samples = 0;
    for (const auto& [id, request] : requests_) {
      GenerateRequest alone = request;
      for (int32_t i = 0; i < request.samples; ++i) {
        SCOPED_TRACE(fmt::format("request {}, sample {}", id, i));
        alone.sampling.seed = SampleSeed(request.sampling.seed, i);
        CheckRecord(records_[{id, i}], engine_.Reference(alone));
      }
      samples += static_cast<uint64_t>(request.samples);
    }
    EXPECT_EQ(accepted_, requests_.size());
    EXPECT_EQ(samples, engine_->Stats().accepted);
    EXPECT_EQ(samples, records_.size()) << "updates for samples that there are not";
  }

  size_t accepted() const { return accepted_; }

 private:
  static GenerateRequest MakeRequest(const CounterRng& rng, uint64_t& draw) {
    const auto below = [&](uint64_t bound) {
      return static_cast<int32_t>(rng.Below(draw++, bound));
    };
    GenerateRequest request{.max_new_tokens = 1 + below(30)};
    request.prompt.resize(1 + below(40));
    for (Token& token : request.prompt) token = below(15);
    if (below(2) == 0) request.sampling = {.temperature = 0.7F, .seed = rng.Bits(draw++)};
    if (below(2) == 0) request.stop_strings = {"ab", "dc", "hé"};
    request.ignore_end_of_text = below(2) == 0;
    if (below(3) == 0) {
      request.samples = 1 + below(4);
      request.max_new_tokens = 1 + below(8);  // 21 pages of 4 at most.
    }
    return request;
  }

  static void CheckRecord(const Record& record, const TestEngine::Answer& answer) {
    ASSERT_EQ(record.finishes.size(), 1);
    ASSERT_EQ(record.updates_after_finish, 0);
    const FinishReason finish = record.finishes[0];
    if (finish == FinishReason::kCancelled || finish == FinishReason::kFailed) {
      ASSERT_LE(record.tokens.size(), answer.tokens.size());
      ASSERT_TRUE(std::equal(record.tokens.begin(), record.tokens.end(), answer.tokens.begin()));
      ASSERT_TRUE(answer.text.starts_with(record.text));
    } else {
      ASSERT_EQ(finish, answer.finish);
      ASSERT_EQ(record.tokens, answer.tokens);
      ASSERT_EQ(record.text, answer.text);
    }
  }

  void SubmitAll(int thread) {
    const CounterRng rng(static_cast<uint64_t>(thread));
    uint64_t draw = 0;
    for (int i = 0; i < kRequestsEach; ++i) {
      const GenerateRequest request = MakeRequest(rng, draw);
      GenerateRequest submitted = request;
      submitted.sink = [this](const StreamUpdate& update) { Receive(update); };
      const Expected<RequestId> id = engine_->Submit(std::move(submitted));
      if (!id.ok()) return;
      ++accepted_;
      {
        const std::lock_guard lock(mutex_);
        requests_[*id] = request;
      }
      if (rng.Below(draw++, 4) == 0)
        engine_->Cancel(*id - rng.Below(draw++, std::min<uint64_t>(*id, 8)));
      if (rng.Below(draw++, 8) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(rng.Below(draw++, 500)));
      }
      if (rng.Below(draw++, 8) == 0) engine_->Stats();
    }
  }

  void Receive(const StreamUpdate& update) {
    const std::lock_guard lock(mutex_);
    Record& record = records_[{update.request, update.sample}];
    if (!record.finishes.empty()) ++record.updates_after_finish;
    if (update.token) record.tokens.push_back(*update.token);
    record.text += update.text;
    if (update.finish) record.finishes.push_back(*update.finish);
  }

  TestEngine& engine_;
  std::mutex mutex_;
  std::map<RequestId, GenerateRequest> requests_;
  std::map<std::pair<RequestId, int32_t>, Record> records_;
  std::atomic<size_t> accepted_ = 0;
};

TEST(EngineStressTest, EveryRequestIsAnsweredRightAndEndsOnce) {
  TestEngine engine({});
  Crowd crowd(engine);
  crowd.Run();
  engine->Drain();
  crowd.Check();
  EXPECT_EQ(crowd.accepted(), size_t{kThreads} * kRequestsEach);
  engine->Stop();
  EXPECT_EQ(engine->Stats().pages_in_use, 0);
  EXPECT_GT(engine->Stats().count(FinishReason::kCancelled), 0);
  EXPECT_EQ(engine->Stats().count(FinishReason::kFailed), 0);
}

TEST(EngineStressTest, AStopInTheMiddleEndsAllOnce) {
  for (const int delay : {0, 100, 300, 1000, 5000}) {
    SCOPED_TRACE(delay);
    TestEngine engine({.runner = {.step_time = std::chrono::microseconds(100)}});
    Crowd crowd(engine);
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      engine->Stop();
    });
    crowd.Run();
    stopper.join();
    crowd.Check();
    EXPECT_EQ(engine->Stats().pages_in_use, 0);
  }
}

TEST(EngineStressTest, AFailureInTheMiddleEndsAllOnce) {
  const CounterRng rng(7);
  uint64_t draw = 0;
  uint64_t failed = 0;
  for (const bool at_launch : {true, false, true, false, true, false}) {
    const uint64_t step = rng.Below(draw++, 60);
    SCOPED_TRACE(fmt::format("step {} fails at its {}", step, at_launch ? "launch" : "wait"));
    FakeStepRunner::Options runner{.step_time = std::chrono::microseconds(100)};
    (at_launch ? runner.failing_launch : runner.failing_wait) = step;
    TestEngine engine({.runner = runner});
    Crowd crowd(engine);
    crowd.Run();
    engine->Drain();
    crowd.Check();
    EXPECT_FALSE(engine->Health().ok());
    failed += engine->Stats().count(FinishReason::kFailed);
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace decant
