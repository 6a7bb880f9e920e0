#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bench/workload.h"
#include "engine/engine.h"
#include "engine/fake_step_runner.h"
#include "sched/fake_forward.h"

namespace decant {

/// For tests: an engine that computes nothing but takes a known time for each step.
class BenchEngine {
 public:
  BenchEngine(int32_t max_batch, int32_t chunk_tokens, const FakeStepRunner::Options& options)
      : forward_(kPages, kPageSize, max_batch, kVocab) {
    EngineConfig config;
    config.scheduler = {.max_batch = max_batch,
                        .chunk_tokens = chunk_tokens,
                        .limits = {.max_model_len = 4000, .vocab_size = kVocab}};
    config.num_pages = kPages;
    config.page_size = kPageSize;
    config.end_of_text = {0, 1, 2, 3};
    config.free_observer = [this](std::span<const int32_t> pages) { forward_.Poison(pages); };
    engine_ = Engine::Create(std::move(config), std::make_unique<FakeStepRunner>(forward_, options),
                             nullptr)
                  .value();
  }

  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }

  /// What a request should get, computed token by token.
  std::vector<Token> Answer(const WorkItem& item) const {
    std::vector<Token> history = item.prompt;
    for (int32_t i = 0; i < item.budget; ++i) {
      history.push_back(forward_.NextToken(history, {}, static_cast<uint64_t>(i)));
    }
    return {history.begin() + std::ssize(item.prompt), history.end()};
  }

 private:
  static constexpr int32_t kVocab = 100;
  static constexpr int32_t kPages = 1000;
  static constexpr int32_t kPageSize = 64;
  FakeForward forward_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace decant
