#include "sched/scheduler.h"

#include <algorithm>
#include <numeric>
#include <string>
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
  outlook_.prompts.reserve(config.max_batch);
}

Status Scheduler::Validate(const Request& request) const {
  DECANT_RETURN_IF_ERROR(ValidateRequest(request, config_.limits));
  if (request.samples < 1 || request.samples > config_.max_batch) {
    return InvalidArgument("samples is {}: allowed are 1 to {} (max_batch)", request.samples,
                           config_.max_batch);
  }
  const int64_t pages = pool_.PagesFor(PagesOf(request, request.samples));
  if (pages > pool_.num_pages()) {
    const std::string samples =
        request.samples == 1 ? "" : fmt::format("{} samples of ", request.samples);
    return Error(StatusCode::kResourceExhausted,
                 "{}a prompt of {} tokens and a budget of {} need {} pages of {}: the pool has {}",
                 samples, request.prompt.size(), request.max_new_tokens, pages, pool_.page_size(),
                 pool_.num_pages());
  }
  return {};
}

/// A valid request's reservation. The prompt's last token is not shared: each sample needs its
/// logits.
PageGroup Scheduler::PagesOf(const Request& request, int32_t samples) const {
  const auto prompt_len = Narrow<int32_t>(request.prompt.size());
  return {.tokens = prompt_len + request.max_new_tokens,
          .shared_tokens = samples > 1 ? prompt_len - 1 : 0,
          .leases = samples};
}

Status Scheduler::Submit(Request request) {
  DECANT_RETURN_IF_ERROR(Validate(request));
  const RequestId id = request.id;
  const bool holds_row = std::ranges::any_of(
      rows_, [id](const std::optional<Row>& row) { return row && row->group->request.id == id; });
  if (holds_row || waiting_by_id_.contains(id)) {
    return InvalidArgument("request {} is here already", id);
  }
  auto group = std::make_shared<Group>();
  group->samples.resize(request.samples);
  std::iota(group->samples.begin(), group->samples.end(), 0);
  group->request = std::move(request);
  waiting_by_id_[id] = waiting_.insert(waiting_.end(), std::move(group));
  return {};
}

const StepPlan& Scheduler::Next(int32_t chunk_tokens) {
  DECANT_CHECK(in_flight() <= 1, "{} steps are in flight already", in_flight());
  DECANT_CHECK(chunk_tokens >= 1 && chunk_tokens <= config_.chunk_tokens, "a chunk of {}, of {}",
               chunk_tokens, config_.chunk_tokens);
  Admit();
  StepPlan& plan = plans_[planned_ % plans_.size()];
  plan.step = planned_;
  plan.rows.clear();
  plan.prompt_tokens = 0;
  plan.decode_tokens = 0;
  // Planned oldest first, each at its own place; places without work go.
  int32_t places = 0;
  for (const int32_t index : running_) places = std::max(places, index + 1);
  plan.rows.resize(places);
  for (const int32_t index : running_) PlanRow(index, chunk_tokens, plan);
  std::erase_if(plan.rows, [](const PlannedRow& row) { return row.query_len == 0; });
  if (!plan.empty()) ++planned_;
  return plan;
}

const StepOutlook& Scheduler::Outlook() {
  Admit();
  outlook_.decode_tokens = 0;
  outlook_.decode_positions = 0;
  outlook_.prompts.clear();
  const Group* reads_shared = nullptr;  // Its other samples wait for what this step computes.
  for (const int32_t index : running_) {
    const Row& row = *rows_[index];
    const Group& group = *row.group;
    int32_t start = row.context_len;
    if (start < group.shared_len) {
      if (planned_ < group.shared_ready || reads_shared == &group) continue;
      start = group.shared_planned;
    }
    const auto prompt_len = Narrow<int32_t>(group.request.prompt.size());
    if (start < prompt_len) {
      outlook_.prompts.push_back({.done = start, .left = prompt_len - start});
      if (start < group.shared_len) reads_shared = &group;
    } else if (row.samples_planned < group.request.max_new_tokens) {
      ++outlook_.decode_tokens;
      outlook_.decode_positions += row.context_len + 1;
    }
  }
  return outlook_;
}

void Scheduler::Admit() {
  if (waiting_.empty()) return;
  auto free_rows = std::ranges::count_if(rows_, [](const auto& row) { return !row; });
  while (!waiting_.empty()) {
    const std::shared_ptr<Group> group = waiting_.front();
    if (std::cmp_greater(group->samples.size(), free_rows)) return;
    const PageGroup pages = PagesOf(group->request, Narrow<int32_t>(group->samples.size()));
    std::optional<std::vector<PageLease>> leases = pool_.ReserveGroup(pages);
    if (!leases) return;
    group->shared_len = pool_.SharedPages(pages) * pool_.page_size();
    auto place = rows_.begin();
    for (size_t i = 0; i < group->samples.size(); ++i) {
      place = std::find_if(place, rows_.end(), [](const auto& row) { return !row; });
      const int32_t sample = group->samples[i];
      place->emplace(Row{.group = group,
                         .sample = sample,
                         .sampling = group->request.sampling,
                         .lease = std::move((*leases)[i])});
      (*place)->sampling.seed = SampleSeed(group->request.sampling.seed, sample);
      running_.push_back(Narrow<int32_t>(place - rows_.begin()));
      --free_rows;
    }
    waiting_by_id_.erase(group->request.id);
    waiting_.pop_front();
  }
}

/// Puts the row's share of the step, if it has one, at its place in the plan.
void Scheduler::PlanRow(int32_t index, int32_t chunk_tokens, StepPlan& plan) {
  Row& row = *rows_[index];
  Group& group = *row.group;
  const Request& request = group.request;
  const auto prompt_len = Narrow<int32_t>(request.prompt.size());
  if (row.context_len < group.shared_len) {
    if (plan.step < group.shared_ready) return;  // An older sample goes on in this very step.
    row.context_len = group.shared_planned;
  }
  PlannedRow planned{.request = request.id,
                     .sample = row.sample,
                     .row = index,
                     .prompt = request.prompt,
                     .stop_tokens = request.stop_tokens,
                     .pages = row.lease.pages(),
                     .sampling = row.sampling,
                     .sample_index = static_cast<uint64_t>(row.samples_planned)};
  if (row.context_len < prompt_len) {
    planned.query_len = std::min(prompt_len - row.context_len, chunk_tokens - plan.prompt_tokens);
    planned.prompt_tokens = std::span(request.prompt).subspan(row.context_len, planned.query_len);
    plan.prompt_tokens += planned.query_len;
  } else if (row.samples_planned < request.max_new_tokens) {
    planned.query_len = 1;
    ++plan.decode_tokens;
  }
  if (planned.query_len == 0) return;
  const bool reads_shared = row.context_len < group.shared_len;
  row.context_len += planned.query_len;
  if (reads_shared) {
    group.shared_planned = std::min(row.context_len, group.shared_len);
    group.shared_ready = plan.step + 1;
  }
  planned.context_len = row.context_len;
  planned.samples = row.context_len >= prompt_len;
  if (planned.samples) ++row.samples_planned;
  row.free_at = plan.step + 1;
  plan.rows[index] = std::move(planned);
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
  const Request& request = row.group->request;
  TokenEvent event{
      .request = request.id, .sample = row.sample, .token = token, .sampled = &sampled};
  if (std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end()) {
    event.finish = FinishReason::kEndOfText;
  } else if (row.tokens_committed == request.max_new_tokens) {
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
  return EndRows([id](const Row& row) { return row.group->request.id == id; });
}

bool Scheduler::End(RequestId id, int32_t sample) {
  if (const auto waiting = waiting_by_id_.find(id); waiting != waiting_by_id_.end()) {
    std::vector<int32_t>& samples = (*waiting->second)->samples;
    if (samples.size() > 1) return std::erase(samples, sample) > 0;
    return samples.front() == sample && End(id);
  }
  return EndRows(
      [id, sample](const Row& row) { return row.group->request.id == id && row.sample == sample; });
}

/// Ends the running rows for which `ends` holds; true if there are any.
template <typename Predicate>
bool Scheduler::EndRows(Predicate ends) {
  bool any = false;
  for (const int32_t index : running_) {
    if (!ends(*rows_[index])) continue;
    rows_[index]->ended = true;
    any = true;
  }
  if (any) FreeEndedRows();
  return any;
}

void Scheduler::Abandon() {
  waiting_.clear();
  waiting_by_id_.clear();
  running_.clear();
  for (std::optional<Row>& row : rows_) row.reset();
  committed_ = planned_;
}

void Scheduler::Progress(std::vector<RowProgress>& progress) const {
  progress.clear();
  for (const std::optional<Row>& row : rows_) {
    if (!row || row->ended) continue;
    const Request& request = row->group->request;
    const auto prompt_tokens = Narrow<int32_t>(request.prompt.size());
    progress.push_back({.request = request.id,
                        .sample = row->sample,
                        .row = Narrow<int32_t>(&row - rows_.data()),
                        .prompt_tokens = prompt_tokens,
                        .prompt_done = std::min(row->context_len, prompt_tokens),
                        .generated_tokens = row->tokens_committed,
                        .budget = request.max_new_tokens});
  }
}

/// Takes rows that ended out of the running ones, and frees those no step in flight may read.
void Scheduler::FreeEndedRows() {
  std::erase_if(running_, [this](int32_t index) { return rows_[index]->ended; });
  for (std::optional<Row>& row : rows_) {
    if (row && row->ended && row->free_at <= committed_) row.reset();
  }
}

}  // namespace decant
