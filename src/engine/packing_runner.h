#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "ops/cuda/step_packing.h"
#include "runtime/packed_batch.h"
#include "runtime/step_draws.h"
#include "runtime/step_runner.h"
#include "text/tokenizer.h"

namespace decant {

/// A StepRunner that does what the host does for a step on a GPU, and computes nothing: it packs
/// the plan, plans its prompts, gathers its draws; every row samples token 0. For tests and
/// benchmarks.
class PackingRunner : public StepRunner {
 public:
  struct Limits {
    int32_t rows = 0;
    int32_t chunk_tokens = 0;
    int32_t pages_per_row = 0;
  };

  explicit PackingRunner(const Limits& limits)
      : planner_({.shape = kShape,
                  .multiprocessors = 132,
                  .max_tokens = limits.chunk_tokens + limits.rows,
                  .max_rows = limits.rows}),
        packer_({.tokens = limits.chunk_tokens + limits.rows,
                 .rows = limits.rows,
                 .pages_per_row = limits.pages_per_row,
                 .group = kShape.group(),
                 .prompt_plan = planner_.most()}),
        host_(packer_.host_words()),
        device_(packer_.device_words()) {}

  Expected<Ticket> Launch(const StepPlan& plan) override {
    plans_[plan.step % plans_.size()] = &plan;
    const StepBatch& batch = packed_.Pack(plan, [](int32_t) { return kLastToken; });
    packer_.Pack(batch, &planner_, StepShape::kRounded, {}, host_, device_.data());
    draws_.Clear();
    for (const PlannedRow& row : plan.rows) {
      if (row.samples) AddDraw(row, draws_);
    }
    return Ticket{plan.step};
  }

  Status Wait(Ticket ticket, StepResult& result) override {
    result.step = ticket.step;
    size_t count = 0;
    for (const PlannedRow& row : plans_[ticket.step % plans_.size()]->rows) {
      if (!row.samples) continue;
      if (result.tokens.size() == count) result.tokens.emplace_back();
      result.tokens[count++] = {.request = row.request, .row = row.row};
    }
    result.tokens.resize(count);
    return {};
  }

 private:
  /// Qwen2.5-1.5B's.
  static constexpr AttentionShape kShape = {.heads = 12, .kv_heads = 2, .head_dim = 128};

  PackedBatch packed_;
  PromptPlanner planner_;
  StepPacker packer_;
  std::vector<int32_t> host_;
  std::vector<int32_t> device_;
  StepDraws draws_;
  std::array<const StepPlan*, 2> plans_{};
};

/// An engine of `rows` rows over a PackingRunner, for requests of up to 4,096 positions.
inline std::unique_ptr<Engine> MakePackingEngine(int32_t rows, int32_t chunk_tokens,
                                                 std::shared_ptr<const Tokenizer> tokenizer) {
  constexpr int32_t kMaxModelLen = 4096;
  EngineConfig config;
  config.scheduler = {
      .max_batch = rows, .chunk_tokens = chunk_tokens, .limits = {.max_model_len = kMaxModelLen}};
  config.page_size = 64;
  const int32_t pages_per_row = kMaxModelLen / config.page_size;
  config.num_pages = rows * pages_per_row;
  auto runner = std::make_unique<PackingRunner>(PackingRunner::Limits{
      .rows = rows, .chunk_tokens = chunk_tokens, .pages_per_row = pages_per_row});
  return Engine::Create(std::move(config), std::move(runner), std::move(tokenizer)).value();
}

}  // namespace decant
