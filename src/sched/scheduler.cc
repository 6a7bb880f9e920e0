#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {

Status ValidateSchedulerConfig(const SchedulerConfig& config) {
  const std::pair<const char*, int32_t> settings[] = {
      {"max_batch", config.max_batch},
      {"chunk_tokens", config.chunk_tokens},
      {"max_model_len", config.limits.max_model_len},
      {"vocab_size", config.limits.vocab_size.value_or(1)},
  };
  for (const auto& [name, value] : settings) {
    if (value < 1) return InvalidArgument("{} is {}: allowed is at least 1", name, value);
  }
  return {};
}

Scheduler::Scheduler(const SchedulerConfig& config, PagePool& pool) : config_(config), pool_(pool) {
  const Status valid = ValidateSchedulerConfig(config);
  DECANT_CHECK(valid.ok(), "{}", valid.ToString());
  rows_.resize(config.max_batch);
  running_.reserve(config.max_batch);
  events_.reserve(config.max_batch);
  for (StepPlan& plan : plans_) plan.rows.reserve(config.max_batch);
}

Status Scheduler::Validate(const Request& request) const {
  DECANT_RETURN_IF_ERROR(ValidateRequest(request, config_.limits));
  const auto prompt_len = Narrow<int32_t>(request.prompt.size());
  const int32_t pages = pool_.PagesFor(prompt_len + request.max_new_tokens);
  if (pages > pool_.num_pages()) {
    return Error(StatusCode::kResourceExhausted,
                 "a prompt of {} tokens and a budget of {} need {} pages of {}: the pool has {}",
                 prompt_len, request.max_new_tokens, pages, pool_.page_size(), pool_.num_pages());
  }
  return {};
}

Status Scheduler::Submit(Request request) {
  DECANT_RETURN_IF_ERROR(Validate(request));
  const RequestId id = request.id;
  const bool holds_row = std::ranges::any_of(
      rows_, [id](const std::optional<Row>& row) { return row && row->request.id == id; });
  if (holds_row || waiting_by_id_.contains(id)) {
    return InvalidArgument("request {} is here already", id);
  }
  waiting_by_id_[id] = waiting_.insert(waiting_.end(), std::move(request));
  return {};
}

const StepPlan& Scheduler::Next() {
  DECANT_CHECK(in_flight() <= 1, "{} steps are in flight already", in_flight());
  Admit();
  StepPlan& plan = plans_[planned_ % plans_.size()];
  plan.step = planned_;
  plan.rows.clear();
  plan.prompt_tokens = 0;
  plan.decode_tokens = 0;
  for (const int32_t index : running_) PlanRow(index, plan);
  std::ranges::sort(plan.rows, {}, &PlannedRow::row);
  if (!plan.empty()) ++planned_;
  return plan;
}

void Scheduler::Admit() {
  while (!waiting_.empty()) {
    const auto place = std::ranges::find_if(rows_, [](const auto& row) { return !row; });
    if (place == rows_.end()) return;
    Request& head = waiting_.front();
    const auto tokens = Narrow<int32_t>(head.prompt.size()) + head.max_new_tokens;
    std::optional<PageLease> lease = pool_.Reserve(tokens);
    if (!lease) return;
    waiting_by_id_.erase(head.id);
    place->emplace(Row{.request = std::move(head), .lease = *std::move(lease)});
    waiting_.pop_front();
    running_.push_back(Narrow<int32_t>(place - rows_.begin()));
  }
}

/// Adds the row's share of the step to the plan, if it has one.
void Scheduler::PlanRow(int32_t index, StepPlan& plan) {
  Row& row = *rows_[index];
  const auto prompt_len = Narrow<int32_t>(row.request.prompt.size());
  PlannedRow planned{.request = row.request.id,
                     .row = index,
                     .prompt = row.request.prompt,
                     .stop_tokens = row.request.stop_tokens,
                     .pages = row.lease.pages(),
                     .sampling = row.request.sampling,
                     .sample_index = static_cast<uint64_t>(row.samples_planned)};
  if (row.context_len < prompt_len) {
    planned.query_len =
        std::min(prompt_len - row.context_len, config_.chunk_tokens - plan.prompt_tokens);
    planned.prompt_tokens =
        std::span(row.request.prompt).subspan(row.context_len, planned.query_len);
    plan.prompt_tokens += planned.query_len;
  } else if (row.samples_planned < row.request.max_new_tokens) {
    planned.query_len = 1;
    ++plan.decode_tokens;
  }
  if (planned.query_len == 0) return;
  row.context_len += planned.query_len;
  planned.context_len = row.context_len;
  planned.samples = row.context_len >= prompt_len;
  if (planned.samples) ++row.samples_planned;
  row.free_at = plan.step + 1;
  plan.rows.push_back(planned);
}

std::span<const TokenEvent> Scheduler::Commit(const StepResult& result) {
  DECANT_CHECK(in_flight() > 0 && result.step == committed_,
               "the result of step {} with {} in flight from {}", result.step, in_flight(),
               committed_);
  events_.clear();
  auto sampled = result.tokens.begin();
  for (const PlannedRow& planned : plans_[committed_ % plans_.size()].rows) {
    if (!planned.samples) continue;
    DECANT_CHECK(sampled != result.tokens.end() && sampled->request == planned.request &&
                     sampled->row == planned.row,
                 "step {} brings no token for request {} in row {}", result.step, planned.request,
                 planned.row);
    Row& row = *rows_[planned.row];
    if (!row.ended) events_.push_back(AppendToken(row, *sampled));
    ++sampled;
  }
  DECANT_CHECK(sampled == result.tokens.end(), "step {} brings {} tokens too many", result.step,
               result.tokens.end() - sampled);
  ++committed_;
  FreeEndedRows();
  return events_;
}

TokenEvent Scheduler::AppendToken(Row& row, const SampledToken& sampled) {
  ++row.tokens_committed;
  const Token token = sampled.token;
  TokenEvent event{.request = row.request.id, .token = token, .sampled = &sampled};
  if (std::ranges::find(row.request.stop_tokens, token) != row.request.stop_tokens.end()) {
    event.finish = FinishReason::kEndOfText;
  } else if (row.tokens_committed == row.request.max_new_tokens) {
    event.finish = FinishReason::kBudget;
  }
  row.ended = event.finish.has_value();
  return event;
}

bool Scheduler::End(RequestId id) {
  if (const auto waiting = waiting_by_id_.find(id); waiting != waiting_by_id_.end()) {
    waiting_.erase(waiting->second);
    waiting_by_id_.erase(waiting);
    return true;
  }
  const auto running =
      std::ranges::find(running_, id, [this](int32_t index) { return rows_[index]->request.id; });
  if (running == running_.end()) return false;
  rows_[*running]->ended = true;
  FreeEndedRows();
  return true;
}

void Scheduler::Abandon() {
  waiting_.clear();
  waiting_by_id_.clear();
  running_.clear();
  for (std::optional<Row>& row : rows_) row.reset();
  committed_ = planned_;
}

/// Takes rows that ended out of the running ones, and frees those no step in flight may read.
void Scheduler::FreeEndedRows() {
  std::erase_if(running_, [this](int32_t index) { return rows_[index]->ended; });
  for (std::optional<Row>& row : rows_) {
    if (row && row->ended && row->free_at <= committed_) row.reset();
  }
}

}  // namespace decant
