#include "runtime/forward_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "model/forward.h"
#include "runtime/logprobs.h"

namespace decant {
namespace {

/// The samples of a request share its prompt: the first one, which computes it from its beginning,
/// tells of it.
bool WantsPromptLogprobs(const PlannedRow& row) {
  return row.sampling.prompt_logprobs.has_value() && row.sample == 0;
}

}  // namespace

ForwardRunner::ForwardRunner(Ops& ops, const DecoderWeights& weights, int32_t max_rows,
                             LogitsObserver observer)
    : ops_(ops),
      weights_(weights),
      observer_(std::move(observer)),
      states_(max_rows),
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
      token_ids_.push_back(states_[row.row].last_token);
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

/// Appends to the rows' prompt_logprobs what this step's positions say of the prompt tokens that
/// follow them.
void ForwardRunner::ComputePromptLogprobs(const StepPlan& plan, TensorView residual) {
  struct Position {
    int32_t token = 0;  // in the batch
    Token next = 0;
    int32_t top = 0;
    PositionLogprobs* out = nullptr;
  };
  std::vector<Position> positions;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlannedRow& row = plan.rows[i];
    if (!WantsPromptLogprobs(row) || row.prompt_tokens.empty()) continue;
    RowState& state = states_[row.row];
    const int32_t first = row.context_len - row.query_len;
    if (first == 0) state.prompt_logprobs.clear();
    const std::span<const Token> next = row.prompt.subspan(first + 1).first(
        std::min<size_t>(row.query_len, row.prompt.size() - first - 1));
    DECANT_CHECK(state.prompt_logprobs.size() == static_cast<size_t>(first),
                 "request {}'s prompt goes on at {} after {}", row.request, first,
                 state.prompt_logprobs.size());
    state.prompt_logprobs.resize(first + next.size());
    for (size_t k = 0; k < next.size(); ++k) {
      positions.push_back({.token = rows_[i].query_start + static_cast<int32_t>(k),
                           .next = next[k],
                           .top = *row.sampling.prompt_logprobs,
                           .out = &state.prompt_logprobs[first + k]});
    }
  }
  std::vector<int32_t> tokens;
  for (std::span<const Position> rest = positions; !rest.empty();) {
    const auto block = rest.first(std::min<size_t>(rest.size(), kPromptLogitsTokens));
    rest = rest.subspan(block.size());
    tokens.clear();
    for (const Position& position : block) tokens.push_back(position.token);
    const TensorView logits = Logits(ops_, weights_, residual, tokens);
    ops_.ParallelFor(static_cast<int64_t>(block.size()), [&](int64_t i) {
      *block[i].out = ComputeLogprobs({logits.Row<float>(i), static_cast<size_t>(logits.cols)},
                                      block[i].next, block[i].top);
    });
  }
}

SampledToken ForwardRunner::SampleRow(const PlannedRow& row, std::span<const float> logits) {
  RowState& state = states_[row.row];
  state.last_token = state.sampler.Sample(
      logits, row.sampling,
      {.sample_index = row.sample_index, .prompt = row.prompt, .stop_tokens = row.stop_tokens});
  SampledToken sampled{.request = row.request, .row = row.row, .token = state.last_token};
  if (row.sampling.logprobs) {
    sampled.logprobs = ComputeLogprobs(logits, sampled.token, *row.sampling.logprobs);
  }
  if (WantsPromptLogprobs(row) && row.sample_index == 0) {
    sampled.prompt_logprobs = std::exchange(state.prompt_logprobs, {});
  }
  return sampled;
}

StepResult ForwardRunner::RunStep(const StepPlan& plan) {
  const auto start = std::chrono::steady_clock::now();
  Pack(plan);
  const TensorView residual = Forward(ops_, weights_, batch_);
  ComputePromptLogprobs(plan, residual);
  const TensorView logits = Logits(ops_, weights_, residual, logits_tokens_);
  if (observer_) observer_(plan, logits);

  StepResult result{.step = plan.step};
  std::vector<const PlannedRow*> sampling;
  for (const PlannedRow& row : plan.rows) {
    if (row.samples) sampling.push_back(&row);
  }
  result.tokens.resize(sampling.size());
  ops_.ParallelFor(static_cast<int64_t>(sampling.size()), [&](int64_t i) {
    result.tokens[i] =
        SampleRow(*sampling[i], {logits.Row<float>(i), static_cast<size_t>(logits.cols)});
  });
  const StepCost cost = ops_.Cost();
  result.bytes = cost.bytes;
  result.operations = cost.operations;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace decant
