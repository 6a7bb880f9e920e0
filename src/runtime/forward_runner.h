#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "model/decoder_weights.h"
#include "ops/ops.h"
#include "runtime/sampler.h"
#include "runtime/step_runner.h"

namespace decant {

/// Steps of a real model: packs a plan into a batch, runs Forward, samples. A thread of its own
/// does so, so that the caller plans the next step meanwhile; it is the only one that uses `ops`.
///
/// Log-probabilities of prompts are computed kPromptLogitsTokens positions at a time, so that a
/// chunk's logits are never held at once.
class ForwardRunner : public StepRunner {
 public:
  static constexpr int32_t kPromptLogitsTokens = 32;

  /// Told of each step's logits [samples, vocab] before sampling, in plan order of the rows that
  /// sample; for gates and tests, on the runner's thread.
  using LogitsObserver = std::function<void(const StepPlan& plan, TensorView logits)>;

  /// `ops` and `weights` must outlive the runner. Rows are numbered below max_rows. `ops` must give
  /// the logits of max(max_rows, kPromptLogitsTokens) tokens at a time.
  ForwardRunner(Ops& ops, const DecoderWeights& weights, int32_t max_rows,
                LogitsObserver observer = nullptr);
  ~ForwardRunner() override;

  Expected<Ticket> Launch(const StepPlan& plan) override;
  Expected<StepResult> Wait(Ticket ticket) override;

 private:
  void ThreadLoop();
  StepResult RunStep(const StepPlan& plan);
  void Pack(const StepPlan& plan);
  void ComputePromptLogprobs(const StepPlan& plan, TensorView residual);
  SampledToken SampleRow(const PlannedRow& row, std::span<const float> logits);

  /// What a row keeps from step to step.
  struct RowState {
    Token last_token = 0;
    Sampler sampler{};
    std::vector<PositionLogprobs> prompt_logprobs{};  // of the prompt that the row reads
  };

  Ops& ops_;
  const DecoderWeights& weights_;
  LogitsObserver observer_;

  // Used by the runner's thread only.
  std::vector<RowState> states_;  // [max_rows]
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> token_rows_;
  std::vector<BatchRow> rows_;
  std::vector<int32_t> logits_tokens_;
  StepBatch batch_;

  std::mutex mutex_;
  std::condition_variable launched_;
  std::condition_variable finished_;
  std::deque<const StepPlan*> queue_;  // guarded by mutex_
  std::deque<StepResult> results_;     // guarded by mutex_
  bool stop_ = false;                  // guarded by mutex_
  std::thread thread_;
};

}  // namespace decant
