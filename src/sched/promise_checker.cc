#include "sched/promise_checker.h"

#include <algorithm>
#include <array>

#include "base/check.h"

/// Returns a breach of the promise from the enclosing function unless `condition` holds.
#define DECANT_PROMISED(condition, promise, ...)                            \
  do {                                                                      \
    if (!(condition)) return Breach{(promise), ::fmt::format(__VA_ARGS__)}; \
  } while (false)

namespace decant {
namespace {

std::string Name(RequestId id, int32_t sample) {
  return fmt::format("request {}, sample {}", id, sample);
}

std::string Name(const PlannedRow& row) { return Name(row.request, row.sample); }

bool IsStop(const Request& request, Token token) {
  return std::ranges::count(request.stop_tokens, token) > 0;
}

}  // namespace

std::string_view PromiseName(Promise promise) {
  constexpr std::array<std::string_view, kPromises> kNames = {
      "admission", "reservation", "pages",  "page in flight", "batch", "chunk",
      "decode",    "context",     "tokens", "ends once",      "moves"};
  return kNames[static_cast<size_t>(promise)];
}

PromiseChecker::PromiseChecker(const SchedulerConfig& config, int32_t num_pages, int32_t page_size)
    : config_(config),
      num_pages_(num_pages),
      page_size_(page_size),
      rows_(config.max_batch),
      pages_(num_pages),
      free_pages_(num_pages) {}

int32_t PromiseChecker::PromptLen(const RequestBook& book) const {
  return static_cast<int32_t>(book.request.prompt.size());
}

/// The pages of one sample, the shared ones included.
int32_t PromiseChecker::PagesOfOne(const Request& request) const {
  const auto total = static_cast<int32_t>(request.prompt.size()) + request.max_new_tokens;
  return (total + page_size_ - 1) / page_size_;
}

/// What `samples` of a request hold together.
int32_t PromiseChecker::PagesOf(const RequestBook& book, int32_t samples) const {
  const int32_t shared = book.shared_len / page_size_;
  return samples == 0 ? 0 : shared + samples * (PagesOfOne(book.request) - shared);
}

const PromiseChecker::SampleBook* PromiseChecker::Find(RequestId id, int32_t sample) const {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return nullptr;
  const auto& samples = found->second.samples;
  return sample >= 0 && std::cmp_less(sample, samples.size()) ? &samples[sample] : nullptr;
}

PromiseChecker::SampleBook* PromiseChecker::Find(RequestId id, int32_t sample) {
  return const_cast<SampleBook*>(std::as_const(*this).Find(id, sample));
}

std::span<const Token> PromiseChecker::TokensOf(RequestId id, int32_t sample) const {
  const SampleBook* book = Find(id, sample);
  DECANT_CHECK(book != nullptr, "{} is not known", Name(id, sample));
  return std::span(book->tokens).first(book->received);
}

Verdict PromiseChecker::Submitted(const Request& request, const Status& answer) {
  RequestBook book{.request = request};
  if (request.samples > 1) book.shared_len = (PromptLen(book) - 1) / page_size_ * page_size_;
  const bool fits = PromptLen(book) + request.max_new_tokens <= config_.limits.max_model_len &&
                    request.samples <= config_.max_batch &&
                    PagesOf(book, request.samples) <= num_pages_;
  const bool is_new = !requests_.contains(request.id);
  DECANT_PROMISED(
      answer.ok() == (fits && is_new), Promise::kAdmission,
      "request {} ({} prompt tokens, budget {}, {} samples: {} pages of {}{}) was {}: {}",
      request.id, request.prompt.size(), request.max_new_tokens, request.samples,
      PagesOf(book, request.samples), num_pages_, is_new ? "" : ", here before",
      answer.ok() ? "accepted" : "refused", answer.ToString());
  if (!answer.ok()) return std::nullopt;
  DECANT_CHECK(request.id > last_id_, "request {} comes after {}", request.id, last_id_);
  last_id_ = request.id;
  RequestBook& kept = requests_.emplace(request.id, std::move(book)).first->second;
  kept.samples.resize(request.samples);
  kept.waiting = request.samples;
  for (int32_t i = 0; i < request.samples; ++i) {
    kept.samples[i].request = &kept;
    kept.samples[i].number = i;
  }
  waiting_.push_back(&kept);
  return std::nullopt;
}

bool PromiseChecker::Ending(RequestId id, std::optional<int32_t> sample) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return false;
  bool any = false;
  for (SampleBook& book : found->second.samples) {
    if (book.phase == Phase::kEnded || (sample && book.number != *sample)) continue;
    EndSample(book);
    any = true;
  }
  return any;
}

void PromiseChecker::Abandoning() {
  for (const Flight& flight : flights_) {
    for (SampleBook* sample : flight.rows) {
      --sample->flights;
      for (const int32_t page : sample->pages) --pages_[page].flights;
      if (sample->phase == Phase::kEnded) LetGo(*sample);
    }
  }
  flights_.clear();
  for (auto& [id, book] : requests_) Ending(id, std::nullopt);
}

void PromiseChecker::EndSample(SampleBook& sample) {
  if (sample.phase == Phase::kWaiting) {
    RequestBook* const request = sample.request;
    if (--request->waiting == 0) std::erase(waiting_, request);
  } else {
    std::erase(running_, &sample);
  }
  sample.phase = Phase::kEnded;
  LetGo(sample);
}

/// A sample that ended holds its place until no step in flight names it.
void PromiseChecker::LetGo(SampleBook& sample) {
  if (!sample.holds || sample.flights > 0) return;
  sample.holds = false;
  RequestBook& request = *sample.request;
  free_pages_ += PagesOf(request, request.holders) - PagesOf(request, request.holders - 1);
  --request.holders;
  --rows_held_;
  if (sample.row) rows_[*sample.row] = nullptr;
  for (const int32_t page : sample.pages) --pages_[page].holders;
}

void PromiseChecker::AdmitWhatFits() {
  while (!waiting_.empty()) {
    RequestBook& book = *waiting_.front();
    const int32_t pages = PagesOf(book, book.waiting);
    if (rows_held_ + book.waiting > config_.max_batch || pages > free_pages_) return;
    free_pages_ -= pages;
    rows_held_ += book.waiting;
    book.holders = book.waiting;
    book.waiting = 0;
    for (SampleBook& sample : book.samples) {
      if (sample.phase != Phase::kWaiting) continue;
      sample.phase = Phase::kRunning;
      sample.holds = true;
      running_.push_back(&sample);
    }
    waiting_.pop_front();
  }
}

Verdict PromiseChecker::Planned(const StepPlan& plan, int32_t chunk_tokens) {
  AdmitWhatFits();
  DECANT_RETURN_IF_BROKEN(FindRows(plan));
  DECANT_RETURN_IF_BROKEN(CheckShares(plan, chunk_tokens));
  if (plan.empty()) {
    DECANT_PROMISED((waiting_.empty() && running_.empty()) || !flights_.empty(), Promise::kMoves,
                    "{} requests wait and {} samples run, and nothing is planned or in flight",
                    waiting_.size(), running_.size());
    return std::nullopt;
  }
  DECANT_PROMISED(plan.step == steps_, Promise::kContext, "step {} is planned as number {}", steps_,
                  plan.step);
  ++steps_;
  Flight flight{.plan = &plan, .rows = {}};
  for (const PlannedRow& planned : plan.rows) {
    SampleBook& sample = *Find(planned.request, planned.sample);
    DECANT_RETURN_IF_BROKEN(CheckRow(planned, sample));
    ++sample.flights;
    for (const int32_t page : sample.pages) ++pages_[page].flights;
    sample.in_plan = nullptr;
    flight.rows.push_back(&sample);
  }
  flights_.push_back(std::move(flight));
  return std::nullopt;
}

/// Every planned row is that of another sample, which runs.
Verdict PromiseChecker::FindRows(const StepPlan& plan) {
  int32_t last_row = -1;
  for (const PlannedRow& planned : plan.rows) {
    DECANT_PROMISED(planned.row > last_row && planned.row < config_.max_batch, Promise::kBatch,
                    "{} stands in row {} after row {}, of {}", Name(planned), planned.row, last_row,
                    config_.max_batch);
    last_row = planned.row;
    SampleBook* const sample = Find(planned.request, planned.sample);
    DECANT_PROMISED(sample != nullptr, Promise::kAdmission, "{} was never accepted", Name(planned));
    DECANT_PROMISED(sample->phase != Phase::kWaiting, Promise::kAdmission,
                    "{} is planned before its turn: request {} is first", Name(planned),
                    waiting_.front()->request.id);
    DECANT_PROMISED(sample->phase != Phase::kEnded, Promise::kEndsOnce,
                    "{} is planned after its end", Name(planned));
    DECANT_PROMISED(sample->in_plan == nullptr, Promise::kBatch, "{} is planned twice in a step",
                    Name(planned));
    sample->in_plan = &planned;
  }
  return std::nullopt;
}

/// The first position that the sample may compute in a step planned now; none while an older sample
/// has shared positions to compute.
std::optional<int32_t> PromiseChecker::Start(const SampleBook& sample) const {
  const RequestBook& request = *sample.request;
  if (sample.planned_len >= request.shared_len) return sample.planned_len;
  for (int32_t i = 0; i < sample.number && request.shared_planned < request.shared_len; ++i) {
    if (request.samples[i].phase == Phase::kRunning) return std::nullopt;
  }
  return request.shared_planned;
}

/// Who computes how much: every decode token; chunks up to the limit, none for a row while an older
/// one has prompt left.
Verdict PromiseChecker::CheckShares(const StepPlan& plan, int32_t chunk_tokens) {
  int32_t unread = 0;
  int32_t read = 0;
  int32_t decoded = 0;
  const SampleBook* has_prompt_left = nullptr;
  for (SampleBook* const sample : running_) {
    const int32_t len = sample->in_plan == nullptr ? 0 : sample->in_plan->query_len;
    const RequestId id = sample->request->request.id;
    sample->start = Start(*sample);
    if (!sample->start) {
      DECANT_PROMISED(len == 0, Promise::kContext, "{} goes on before what it shares is written",
                      Name(id, sample->number));
      continue;
    }
    const int32_t left = PromptLen(*sample->request) - *sample->start;
    if (left > 0) {
      DECANT_PROMISED(len <= left, Promise::kContext, "{} reads {} tokens of {} left",
                      Name(id, sample->number), len, left);
      DECANT_PROMISED(len == 0 || has_prompt_left == nullptr, Promise::kChunk,
                      "{} reads its prompt while that of request {} has tokens left",
                      Name(id, sample->number), has_prompt_left->request->request.id);
      if (len < left) has_prompt_left = sample;
      unread += left;
      read += len;
    } else {
      const bool goes_on = sample->planned_samples < sample->request->request.max_new_tokens;
      DECANT_PROMISED(len == (goes_on ? 1 : 0), Promise::kDecode,
                      "{} gets {} decode tokens, with {} of {} planned", Name(id, sample->number),
                      len, sample->planned_samples, sample->request->request.max_new_tokens);
      decoded += len;
    }
  }
  DECANT_PROMISED(read == std::min(unread, chunk_tokens), Promise::kChunk,
                  "the step reads {} prompt tokens: {} are left, {} allowed", read, unread,
                  chunk_tokens);
  DECANT_PROMISED(plan.prompt_tokens == read && plan.decode_tokens == decoded, Promise::kChunk,
                  "the step counts {} prompt and {} decode tokens, its rows {} and {}",
                  plan.prompt_tokens, plan.decode_tokens, read, decoded);
  return std::nullopt;
}

Verdict PromiseChecker::CheckOutlook(const StepLoad& foreseen, const StepPlan& plan) {
  const StepLoad load = LoadOf(plan);
  DECANT_PROMISED(
      foreseen.prompt_tokens == load.prompt_tokens &&
          foreseen.decode_tokens == load.decode_tokens &&
          foreseen.positions() == load.positions() &&
          foreseen.decode_positions == load.decode_positions &&
          foreseen.longest_prompt_context == load.longest_prompt_context &&
          foreseen.prompt_pairs == load.prompt_pairs,
      Promise::kChunk,
      "step {} computes {} prompt and {} decode tokens over {} positions: foreseen were "
      "{}, {} and {}",
      plan.step, load.prompt_tokens, load.decode_tokens, load.positions(), foreseen.prompt_tokens,
      foreseen.decode_tokens, foreseen.positions());
  return std::nullopt;
}

/// What a row's fields say, and that positions follow on each other.
Verdict PromiseChecker::CheckRow(const PlannedRow& planned, SampleBook& sample) {
  RequestBook& book = *sample.request;
  const int32_t prompt_len = PromptLen(book);
  const int32_t start = *sample.start;
  DECANT_PROMISED(planned.context_len - planned.query_len == start, Promise::kContext,
                  "{} goes on at position {}: {} is next", Name(planned),
                  planned.context_len - planned.query_len, start);
  const auto chunk =
      start < prompt_len
          ? std::span<const Token>(book.request.prompt).subspan(start, planned.query_len)
          : std::span<const Token>();
  DECANT_PROMISED(std::ranges::equal(planned.prompt_tokens, chunk), Promise::kContext,
                  "{} is given other tokens than its prompt has at {}", Name(planned), start);
  DECANT_PROMISED(planned.samples == (planned.context_len >= prompt_len), Promise::kTokens,
                  "{} samples at {} of {} prompt tokens: {}", Name(planned), planned.context_len,
                  prompt_len, planned.samples);
  DECANT_PROMISED(planned.sampling.seed == SampleSeed(book.request.sampling.seed, sample.number),
                  Promise::kTokens, "{} draws with a seed that is not its own", Name(planned));
  DECANT_PROMISED(std::cmp_equal(planned.sample_index, sample.planned_samples), Promise::kTokens,
                  "{} makes draw {} as number {}", Name(planned), sample.planned_samples,
                  planned.sample_index);
  sample.planned_len = planned.context_len;
  sample.planned_samples += planned.samples ? 1 : 0;
  book.shared_planned =
      std::max(book.shared_planned, std::min(planned.context_len, book.shared_len));
  if (!sample.row) return TakePlace(planned, sample);
  DECANT_PROMISED(*sample.row == planned.row, Promise::kBatch, "{} moved from row {} to {}",
                  Name(planned), *sample.row, planned.row);
  DECANT_PROMISED(std::ranges::equal(sample.pages, planned.pages), Promise::kReservation,
                  "{} has other pages than before", Name(planned));
  return std::nullopt;
}

/// The row and the pages of a sample, seen for the first time, are nobody else's.
Verdict PromiseChecker::TakePlace(const PlannedRow& planned, SampleBook& sample) {
  const RequestBook& book = *sample.request;
  DECANT_PROMISED(
      std::cmp_equal(planned.pages.size(), PagesOfOne(book.request)), Promise::kReservation,
      "{} has {} pages of {}: {} tokens need {}", Name(planned), planned.pages.size(), page_size_,
      book.request.prompt.size() + book.request.max_new_tokens, PagesOfOne(book.request));
  const SampleBook*& row = rows_[planned.row];
  DECANT_PROMISED(row == nullptr, Promise::kBatch, "{} and request {} share row {}", Name(planned),
                  row->request->request.id, planned.row);
  row = &sample;
  sample.row = planned.row;
  const int32_t shared = book.shared_len / page_size_;
  for (int32_t place = 0; std::cmp_less(place, planned.pages.size()); ++place) {
    const int32_t number = planned.pages[place];
    DECANT_PROMISED(number >= 0 && number < num_pages_, Promise::kPages,
                    "{} has page {} of a pool of {}", Name(planned), number, num_pages_);
    PageBook& page = pages_[number];
    const bool may_share = place < shared && page.request == planned.request && page.place == place;
    DECANT_PROMISED(page.holders == 0 || may_share, Promise::kPages,
                    "{} and request {} share page {}", Name(planned), page.request, number);
    page.request = planned.request;
    page.place = place;
    ++page.holders;
    sample.pages.push_back(number);
  }
  return std::nullopt;
}

Verdict PromiseChecker::Read(const PlannedRow& row, std::span<const Token> history) const {
  const SampleBook* const sample = Find(row.request, row.sample);
  DECANT_CHECK(sample != nullptr, "{} is not known", Name(row));
  const std::vector<Token>& prompt = sample->request->request.prompt;
  const size_t of_prompt = std::min(history.size(), prompt.size());
  const std::span<const Token> generated = history.subspan(of_prompt);
  const bool own =
      std::ranges::equal(history.first(of_prompt), std::span(prompt).first(of_prompt)) &&
      generated.size() <= sample->tokens.size() &&
      std::ranges::equal(generated, std::span(sample->tokens).first(generated.size()));
  DECANT_PROMISED(own, Promise::kContext, "{} read what is not its own", Name(row));
  return std::nullopt;
}

Verdict PromiseChecker::Ran(const StepResult& result) {
  DECANT_CHECK(!flights_.empty(), "no step is in flight");
  const Flight flight = std::move(flights_.front());
  flights_.pop_front();
  due_.clear();
  auto sampled = result.tokens.begin();
  for (size_t i = 0; i < flight.rows.size(); ++i) {
    const PlannedRow& planned = flight.plan->rows[i];
    SampleBook& sample = *flight.rows[i];
    const Request& request = sample.request->request;
    DECANT_PROMISED(planned.request == request.id && planned.sample == sample.number &&
                        std::ranges::equal(planned.pages, sample.pages),
                    Promise::kPageInFlight, "the plan of step {} changed while it was in flight",
                    flight.plan->step);
    --sample.flights;
    for (const int32_t page : sample.pages) --pages_[page].flights;
    std::optional<Token> token;
    if (planned.samples) token = (sampled++)->token;
    if (token && sample.phase == Phase::kRunning) {
      sample.tokens.push_back(*token);
      ++sample.received;
      TokenEvent event{.request = request.id, .sample = sample.number, .token = *token};
      if (std::cmp_equal(sample.received, request.max_new_tokens)) {
        event.finish = FinishReason::kBudget;
      }
      if (IsStop(request, *token)) event.finish = FinishReason::kEndOfText;
      if (event.finish) EndSample(sample);
      due_.push_back(event);
    } else {
      if (token) sample.tokens.push_back(*token);
      if (sample.phase == Phase::kEnded) LetGo(sample);
    }
  }
  return std::nullopt;
}

Verdict PromiseChecker::Committed(std::span<const TokenEvent> events) const {
  DECANT_PROMISED(events.size() <= due_.size(), Promise::kEndsOnce,
                  "{} tokens arrive, {} of them after their sample's end", events.size(),
                  events.size() - due_.size());
  DECANT_PROMISED(events.size() == due_.size(), Promise::kTokens, "{} tokens arrive of {}",
                  events.size(), due_.size());
  for (size_t i = 0; i < due_.size(); ++i) {
    const TokenEvent& event = events[i];
    const TokenEvent& due = due_[i];
    DECANT_PROMISED(event.request == due.request && event.sample == due.sample, Promise::kTokens,
                    "{} gets a token that is due to {}", Name(event.request, event.sample),
                    Name(due.request, due.sample));
    DECANT_PROMISED(event.token == due.token, Promise::kTokens, "{} gets token {}: {} was sampled",
                    Name(event.request, event.sample), event.token, due.token);
    DECANT_PROMISED(event.finish == due.finish, Promise::kEndsOnce, "{} ends by {}: it is {}",
                    Name(event.request, event.sample),
                    event.finish ? FinishReasonName(*event.finish) : "nothing",
                    due.finish ? FinishReasonName(*due.finish) : "nothing");
  }
  return std::nullopt;
}

void PromiseChecker::Freed(std::span<const int32_t> pages) {
  if (freed_wrongly_) return;
  for (const int32_t page : pages) {
    if (pages_[page].flights > 0) {
      freed_wrongly_ =
          Breach{Promise::kPageInFlight,
                 fmt::format("page {} went back while a step in flight may read it", page)};
      return;
    }
    if (pages_[page].holders > 0) {
      freed_wrongly_ = Breach{
          Promise::kReservation,
          fmt::format("page {} went back while request {} holds it", page, pages_[page].request)};
      return;
    }
  }
}

Verdict PromiseChecker::CheckState(const SchedulerView& view) const {
  if (freed_wrongly_) return freed_wrongly_;
  DECANT_PROMISED(view.integrity.ok(), Promise::kPages, "{}", view.integrity.message());
  DECANT_PROMISED(std::cmp_equal(view.waiting, waiting_.size()), Promise::kAdmission,
                  "{} requests wait: {} must", view.waiting, waiting_.size());
  DECANT_PROMISED(std::cmp_equal(view.running, running_.size()), Promise::kEndsOnce,
                  "{} samples run: {} must", view.running, running_.size());
  DECANT_PROMISED(std::cmp_equal(view.in_flight, flights_.size()), Promise::kContext,
                  "{} steps are in flight: {} must be", view.in_flight, flights_.size());
  DECANT_PROMISED(view.free_pages == free_pages_, Promise::kReservation,
                  "{} pages are free: {} must be", view.free_pages, free_pages_);
  return std::nullopt;
}

Verdict PromiseChecker::CheckProgress(std::span<const RowProgress> progress) const {
  DECANT_PROMISED(progress.size() == running_.size(), Promise::kEndsOnce,
                  "the progress of {} samples is told: {} run", progress.size(), running_.size());
  int32_t last_row = -1;
  for (const RowProgress& told : progress) {
    DECANT_PROMISED(told.row > last_row, Promise::kBatch,
                    "the progress of row {} follows that of {}", told.row, last_row);
    last_row = told.row;
    DECANT_RETURN_IF_BROKEN(CheckProgress(told));
  }
  return std::nullopt;
}

Verdict PromiseChecker::CheckProgress(const RowProgress& told) const {
  const SampleBook* const sample = Find(told.request, told.sample);
  DECANT_PROMISED(sample != nullptr && sample->phase == Phase::kRunning, Promise::kEndsOnce,
                  "the progress of {} is told, which does not run",
                  Name(told.request, told.sample));
  const RequestBook& book = *sample->request;
  // Where a sample starts behind shared positions, the first plan says.
  const bool row_is_right = !sample->row || *sample->row == told.row;
  const bool prompt_is_right =
      !sample->row || told.prompt_done == std::min(sample->planned_len, PromptLen(book));
  DECANT_PROMISED(row_is_right && prompt_is_right && told.prompt_tokens == PromptLen(book) &&
                      std::cmp_equal(told.generated_tokens, sample->received) &&
                      told.budget == book.request.max_new_tokens,
                  Promise::kContext, "{} is told to be in row {}, {} of {} prompt tokens, {} of {}",
                  Name(told.request, told.sample), told.row, told.prompt_done, told.prompt_tokens,
                  told.generated_tokens, told.budget);
  return std::nullopt;
}

Verdict PromiseChecker::CheckAllEnded() const {
  DECANT_PROMISED(waiting_.empty() && running_.empty(), Promise::kEndsOnce,
                  "{} requests wait and {} samples run at the end", waiting_.size(),
                  running_.size());
  DECANT_PROMISED(free_pages_ == num_pages_, Promise::kPages, "{} pages of {} are free at the end",
                  free_pages_, num_pages_);
  return std::nullopt;
}

}  // namespace decant
