#include "runtime/forward_runner.h"

#include <chrono>

#include "base/check.h"
#include "model/forward.h"

namespace decant {

ForwardRunner::ForwardRunner(Ops& ops, const DecoderWeights& weights, int32_t max_rows,
                             LogitsObserver observer)
    : ops_(ops),
      weights_(weights),
      observer_(std::move(observer)),
      last_tokens_(max_rows, 0),
      samplers_(max_rows),
      thread_([this] { ThreadLoop(); }) {}

ForwardRunner::~ForwardRunner() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  launched_.notify_one();
  thread_.join();
}

Expected<Ticket> ForwardRunner::Launch(const StepPlan& plan) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&plan);
  }
  launched_.notify_one();
  return Ticket{plan.step};
}

Expected<StepResult> ForwardRunner::Wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return !results_.empty(); });
  StepResult result = std::move(results_.front());
  results_.pop_front();
  DECANT_CHECK(result.step == ticket.step, "step {} waited for, step {} is the oldest", ticket.step,
               result.step);
  return result;
}

void ForwardRunner::ThreadLoop() {
  for (;;) {
    const StepPlan* plan = nullptr;
    {
      std::unique_lock lock(mutex_);
      launched_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      plan = queue_.front();
      queue_.pop_front();
    }
    StepResult result = RunStep(*plan);
    {
      const std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    }
    finished_.notify_one();
  }
}

void ForwardRunner::Pack(const StepPlan& plan) {
  token_ids_.clear();
  positions_.clear();
  token_rows_.clear();
  rows_.clear();
  logits_tokens_.clear();
  for (const PlannedRow& row : plan.rows) {
    const auto index = static_cast<int32_t>(rows_.size());
    rows_.push_back(BatchRow{.query_start = static_cast<int32_t>(token_ids_.size()),
                             .query_len = row.query_len,
                             .context_len = row.context_len,
                             .pages = row.pages});
    if (row.prompt_tokens.empty()) {
      DECANT_CHECK(row.query_len == 1, "a row without prompt tokens computes one");
      token_ids_.push_back(last_tokens_[row.row]);
    } else {
      token_ids_.insert(token_ids_.end(), row.prompt_tokens.begin(), row.prompt_tokens.end());
    }
    for (int32_t i = 0; i < row.query_len; ++i) {
      positions_.push_back(row.context_len - row.query_len + i);
      token_rows_.push_back(index);
    }
    if (row.samples) logits_tokens_.push_back(static_cast<int32_t>(token_ids_.size()) - 1);
  }
  batch_ = StepBatch{
      .token_ids = token_ids_, .positions = positions_, .token_rows = token_rows_, .rows = rows_};
}

StepResult ForwardRunner::RunStep(const StepPlan& plan) {
  const auto start = std::chrono::steady_clock::now();
  Pack(plan);
  const TensorView residual = Forward(ops_, weights_, batch_);
  const TensorView logits = Logits(ops_, weights_, residual, logits_tokens_);
  if (observer_) observer_(plan, logits);

  StepResult result{.step = plan.step};
  std::vector<const PlannedRow*> sampling;
  for (const PlannedRow& row : plan.rows) {
    if (row.samples) sampling.push_back(&row);
  }
  result.tokens.resize(sampling.size());
  ops_.ParallelFor(static_cast<int64_t>(sampling.size()), [&](int64_t i) {
    const PlannedRow& row = *sampling[i];
    const Token token = samplers_[row.row].Sample(
        std::span<const float>(logits.Row<float>(i), logits.cols), row.sampling, row.sample_index);
    result.tokens[i] = {.request = row.request, .row = row.row, .token = token};
    last_tokens_[row.row] = token;
  });
  const StepCost cost = ops_.Cost();
  result.bytes = cost.bytes;
  result.operations = cost.operations;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace decant
