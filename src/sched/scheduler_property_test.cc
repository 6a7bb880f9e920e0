// Random histories of a scheduler for each page size, half of them with a step in flight. Beside
// the scheduler runs a shadow of what the promises say: who waits, who runs, which pages are held.
// It shares no code with the scheduler and derives what is held from the plans in flight, not from
// bookkeeping of its own. The forward runs as late as it may, just before a step is committed, over
// memory that is poisoned as soon as a page is freed.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/random.h"
#include "sched/fake_forward.h"
#include "sched/scheduler.h"

namespace decant {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kHistories = 200;  // For each page size; sanitizers take ten times as long.
#else
constexpr uint64_t kHistories = 1000;
#endif

enum class Phase { kWaiting, kRunning, kEnded };
enum class Lookahead { kNone, kOneStep };

using SampleId = std::pair<RequestId, int32_t>;

/// What the promises say about one request's samples together.
struct ShadowRequest {
  Request request{};
  int32_t shared_len = 0;      ///< Positions that are computed once.
  int32_t shared_planned = 0;  ///< Of these, in the plans so far.

  int32_t prompt_len() const { return static_cast<int32_t>(request.prompt.size()); }
};

/// What the promises say about one sample.
struct Shadow {
  ShadowRequest* common = nullptr;
  std::vector<Token> reference{};  ///< What it gets if nobody ends it.
  Phase phase = Phase::kWaiting;
  int32_t planned_len = 0;      ///< Positions in its plans so far, and shared ones before them.
  int32_t planned_samples = 0;  ///< Samples in the plans so far.
  size_t received = 0;          ///< Tokens that came back.
  bool ended_from_outside = false;
  std::optional<int32_t> row{};  ///< Seen in a plan; never changes.
  std::vector<int32_t> pages{};  ///< Seen in a plan; never change.

  const Request& request() const { return common->request; }
};

/// A plan in flight and a copy of what its spans showed when it was made.
struct Flight {
  const StepPlan* plan;
  std::map<SampleId, std::vector<int32_t>> pages{};
  std::map<SampleId, std::vector<Token>> prompt_tokens{};
};

SampleId IdOf(const PlannedRow& row) { return {row.request, row.sample}; }

class History {
 public:
  History(uint64_t seed, int32_t page_size, Lookahead lookahead)
      : rng_(seed),
        lookahead_(lookahead),
        page_size_(page_size),
        num_pages_(page_size == 1 ? Between(8, 160) : Between(1, 10)),
        vocab_size_(Between(4, 200)),
        config_{.max_batch = Between(1, 6),
                .chunk_tokens = Between(0, 2) == 0 ? Between(1, 8) : Between(8, 2 * page_size + 40),
                .limits = {.max_model_len = Between(2, 900), .vocab_size = vocab_size_}},
        pool_(num_pages_, page_size),
        forward_(num_pages_, page_size, config_.max_batch, vocab_size_),
        scheduler_(config_, pool_) {
    pool_.set_free_observer([this](std::span<const int32_t> pages) { ObserveFree(pages); });
    forward_.set_history_observer([this](const PlannedRow& row, std::span<const Token> history) {
      CheckHistory(row, history);
    });
  }

  void Run() {
    const int32_t requests = Between(1, 24);
    const int32_t arrival_odds = Between(1, 8);
    const int32_t end_odds = Between(0, 3) == 0 ? 0 : Between(8, 60);
    while (std::cmp_less(requests_.size(), requests) || !scheduler_.idle()) {
      while (std::cmp_less(requests_.size(), requests) && Between(0, arrival_odds) == 0) {
        ASSERT_NO_FATAL_FAILURE(Submit());
      }
      if (end_odds > 0 && Between(0, end_odds) == 0) {
        ASSERT_NO_FATAL_FAILURE(EndSome());
      }
      ASSERT_NO_FATAL_FAILURE(Next());
      if (end_odds > 0 && Between(0, end_odds) == 0) {
        ASSERT_NO_FATAL_FAILURE(EndSome());
      }
      const size_t may_fly = lookahead_ == Lookahead::kOneStep && Between(0, 9) > 0 ? 1 : 0;
      while (flights_.size() > may_fly || (last_plan_empty_ && !flights_.empty())) {
        ASSERT_NO_FATAL_FAILURE(Commit());
      }
    }
    for (const auto& [id, shadow] : shadows_) {
      ASSERT_EQ(shadow.phase, Phase::kEnded) << Name(id);
      if (!shadow.ended_from_outside) {
        ASSERT_EQ(shadow.received, shadow.reference.size()) << Name(id);
      }
    }
    ASSERT_EQ(pool_.free_pages(), num_pages_);
  }

 private:
  int32_t Between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.Below(draw_++, static_cast<uint64_t>(high - low) + 1));
  }

  static std::string Name(const SampleId& id) {
    return fmt::format("request {}, sample {}", id.first, id.second);
  }

  int32_t SharedPages(const ShadowRequest& common) const { return common.shared_len / page_size_; }

  /// The pages of one sample, the shared ones included.
  int32_t PagesOf(const Request& request) const {
    const auto total = static_cast<int32_t>(request.prompt.size()) + request.max_new_tokens;
    return (total + page_size_ - 1) / page_size_;
  }

  /// What `samples` of a request hold together.
  int32_t PagesOf(const ShadowRequest& common, int32_t samples) const {
    const int32_t shared = SharedPages(common);
    return samples == 0 ? 0 : shared + samples * (PagesOf(common.request) - shared);
  }

  bool InFlight(const SampleId& id) const {
    return std::ranges::any_of(flights_,
                               [&](const Flight& flight) { return flight.pages.contains(id); });
  }

  /// The promise: a sample holds its row and pages while it runs or a step in flight names it.
  bool Holds(const SampleId& id) const {
    return shadows_.at(id).phase == Phase::kRunning || InFlight(id);
  }

  template <typename Predicate>
  int32_t CountSamples(RequestId request, Predicate holds) const {
    int32_t count = 0;
    for (int32_t i = 0; i < requests_.at(request).request.samples; ++i) {
      count += holds(SampleId{request, i}) ? 1 : 0;
    }
    return count;
  }

  int32_t CountSamples(RequestId request, Phase phase) const {
    return CountSamples(request,
                        [&](const SampleId& id) { return shadows_.at(id).phase == phase; });
  }

  int32_t ShadowFreePages() const {
    int32_t free = num_pages_;
    for (const auto& [id, common] : requests_) {
      free -= PagesOf(common, CountSamples(id, [&](const SampleId& s) { return Holds(s); }));
    }
    return free;
  }

  /// Compares everything that can be seen from outside with the shadow.
  void CheckState() {
    const Status integrity = pool_.CheckIntegrity();
    ASSERT_TRUE(integrity.ok()) << integrity.ToString();
    ASSERT_EQ(pool_.free_pages(), ShadowFreePages());
    int32_t waiting = 0;
    int32_t running = 0;
    for (const auto& [id, common] : requests_) {
      waiting += CountSamples(id, Phase::kWaiting) > 0 ? 1 : 0;
      running += CountSamples(id, Phase::kRunning);
    }
    ASSERT_EQ(scheduler_.waiting(), waiting);
    ASSERT_EQ(scheduler_.running(), running);
    ASSERT_EQ(static_cast<size_t>(scheduler_.in_flight()), flights_.size());
    std::map<int32_t, std::pair<SampleId, size_t>> page_holder;  // and the page's place
    std::map<int32_t, SampleId> row_holder;
    for (const auto& [id, shadow] : shadows_) {
      if (!Holds(id) || !shadow.row) continue;
      ASSERT_TRUE(row_holder.emplace(*shadow.row, id).second)
          << Name(row_holder[*shadow.row]) << " and " << Name(id) << " share row " << *shadow.row;
      for (size_t place = 0; place < shadow.pages.size(); ++place) {
        const auto [held, first] = page_holder.emplace(shadow.pages[place], std::pair(id, place));
        const bool may_share = std::cmp_less(place, SharedPages(*shadow.common)) &&
                               held->second.first.first == id.first && held->second.second == place;
        ASSERT_TRUE(first || may_share) << Name(held->second.first) << " and " << Name(id)
                                        << " share page " << shadow.pages[place];
      }
    }
  }

  void Submit() {
    const RequestId id = next_id_++;
    const int32_t capacity = std::min(config_.limits.max_model_len, num_pages_ * page_size_);
    Request request{.id = id};
    request.prompt.resize(
        Between(1, Between(0, 2) == 0 ? capacity + 1 : std::min(capacity + 1, 60)));
    for (Token& token : request.prompt) token = Between(0, vocab_size_ - 1);
    request.max_new_tokens = Between(1, 40);
    if (Between(0, 1) == 0) {
      request.sampling = {.temperature = 1.0F, .seed = static_cast<uint64_t>(Between(0, 1000))};
    }
    if (Between(0, 1) == 0) request.samples = Between(1, 4);
    for (int32_t i = Between(0, 2); i > 0; --i) {
      request.stop_tokens.push_back(Between(0, vocab_size_ - 1));
    }
    ShadowRequest common{.request = request};
    if (request.samples > 1) {
      common.shared_len = (common.prompt_len() - 1) / page_size_ * page_size_;
    }
    const Status status = scheduler_.Submit(request);
    const bool fits =
        common.prompt_len() + request.max_new_tokens <= config_.limits.max_model_len &&
        request.samples <= config_.max_batch && PagesOf(common, request.samples) <= num_pages_;
    ASSERT_EQ(status.ok(), fits) << status.ToString();
    if (!status.ok()) return;
    ASSERT_FALSE(scheduler_.Submit(request).ok()) << "the same id twice";
    ShadowRequest& kept = requests_[id] = common;
    for (int32_t i = 0; i < request.samples; ++i) {
      request.sampling.seed = SampleSeed(common.request.sampling.seed, i);
      shadows_[{id, i}] = Shadow{.common = &kept, .reference = Reference(request)};
    }
    CheckState();
  }

  std::vector<Token> Reference(const Request& request) const {
    std::vector<Token> history = request.prompt;
    std::vector<Token> tokens;
    while (std::cmp_less(tokens.size(), request.max_new_tokens)) {
      tokens.push_back(forward_.NextToken(history, request.sampling, tokens.size()));
      history.push_back(tokens.back());
      if (IsStop(request, tokens.back())) break;
    }
    return tokens;
  }

  static bool IsStop(const Request& request, Token token) {
    return std::ranges::count(request.stop_tokens, token) > 0;
  }

  /// Ends a request, or one sample of it, that may wait, run, be in flight, have ended or never
  /// have been.
  void EndSome() {
    const auto id = static_cast<RequestId>(Between(1, static_cast<int32_t>(next_id_)));
    const auto found = requests_.find(id);
    const int32_t samples = found == requests_.end() ? 1 : found->second.request.samples;
    const int32_t first = Between(-2, samples);  // Below 0: all.
    bool alive = false;
    for (int32_t i = std::max(first, 0); i < (first < 0 ? samples : first + 1); ++i) {
      const auto shadow = shadows_.find({id, i});
      if (shadow == shadows_.end() || shadow->second.phase == Phase::kEnded) continue;
      alive = true;
      shadow->second.phase = Phase::kEnded;
      shadow->second.ended_from_outside = true;
    }
    ASSERT_EQ(first < 0 ? scheduler_.End(id) : scheduler_.End(id, first), alive)
        << Name({id, first});
    CheckState();
  }

  void Next() {
    for (const auto& [id, common] : requests_) {  // ids ascend: the order of arrival
      const int32_t waiting = CountSamples(id, Phase::kWaiting);
      if (waiting == 0) continue;
      const auto rows =
          std::ranges::count_if(shadows_, [this](const auto& entry) { return Holds(entry.first); });
      if (rows + waiting > config_.max_batch || PagesOf(common, waiting) > ShadowFreePages()) break;
      for (int32_t i = 0; i < common.request.samples; ++i) {
        Shadow& shadow = shadows_[{id, i}];
        if (shadow.phase == Phase::kWaiting) shadow.phase = Phase::kRunning;
      }
    }
    const uint64_t step = steps_;
    const StepPlan& plan = scheduler_.Next();
    last_plan_empty_ = plan.empty();
    ASSERT_NO_FATAL_FAILURE(CheckShares(plan));
    if (!plan.empty()) {
      ASSERT_EQ(plan.step, step);
      ++steps_;
      Flight flight{.plan = &plan};
      for (const PlannedRow& row : plan.rows) {
        ASSERT_NO_FATAL_FAILURE(CheckRow(row));
        flight.pages[IdOf(row)] = {row.pages.begin(), row.pages.end()};
        flight.prompt_tokens[IdOf(row)] = {row.prompt_tokens.begin(), row.prompt_tokens.end()};
      }
      flights_.push_back(flight);
    } else {
      ASSERT_TRUE(scheduler_.idle() || !flights_.empty()) << "nothing moves any more";
    }
    CheckState();
  }

  /// The first position that the sample may compute in a step planned now; none while an older
  /// sample has shared positions to compute.
  std::optional<int32_t> Start(const SampleId& id) const {
    const Shadow& shadow = shadows_.at(id);
    const ShadowRequest& common = *shadow.common;
    if (shadow.planned_len >= common.shared_len) return shadow.planned_len;
    for (int32_t i = 0; i < id.second && common.shared_planned < common.shared_len; ++i) {
      if (shadows_.at({id.first, i}).phase == Phase::kRunning) return std::nullopt;
    }
    return common.shared_planned;
  }

  /// Who computes how much: every decode token; chunks up to the limit, none for a row while an
  /// older one has prompt left.
  void CheckShares(const StepPlan& plan) {
    std::map<SampleId, int32_t> query_len;
    starts_.clear();
    int32_t last_row = -1;
    for (const PlannedRow& row : plan.rows) {
      ASSERT_GT(row.row, last_row) << "rows are in order";
      last_row = row.row;
      ASSERT_TRUE(query_len.emplace(IdOf(row), row.query_len).second);
      ASSERT_TRUE(shadows_.contains(IdOf(row)));
      ASSERT_EQ(shadows_[IdOf(row)].phase, Phase::kRunning) << Name(IdOf(row));
    }
    int32_t unread = 0;
    int32_t read = 0;
    int32_t decoded = 0;
    bool older_has_prompt_left = false;
    for (const auto& [id, shadow] : shadows_) {
      if (shadow.phase != Phase::kRunning) continue;
      const int32_t len = query_len.contains(id) ? query_len[id] : 0;
      const std::optional<int32_t> start = Start(id);
      if (!start) {
        ASSERT_EQ(len, 0) << Name(id) << " goes on before what is shared has been written";
        continue;
      }
      starts_[id] = *start;
      const int32_t left = shadow.common->prompt_len() - *start;
      if (left > 0) {
        ASSERT_LE(len, left);
        ASSERT_TRUE(len == 0 || !older_has_prompt_left) << Name(id) << " jumps the queue";
        older_has_prompt_left = older_has_prompt_left || len < left;
        unread += left;
        read += len;
      } else {
        const bool goes_on = shadow.planned_samples < shadow.request().max_new_tokens;
        ASSERT_EQ(len, goes_on ? 1 : 0) << Name(id);
        decoded += len;
      }
    }
    ASSERT_EQ(read, std::min(unread, config_.chunk_tokens));
    ASSERT_EQ(plan.prompt_tokens, read);
    ASSERT_EQ(plan.decode_tokens, decoded);
  }

  /// What a row's fields say, and that positions follow on each other.
  void CheckRow(const PlannedRow& row) {
    Shadow& shadow = shadows_[IdOf(row)];
    ShadowRequest& common = *shadow.common;
    const int32_t start = starts_.at(IdOf(row));
    ASSERT_EQ(row.context_len - row.query_len, start) << Name(IdOf(row));
    if (start >= common.prompt_len()) {
      ASSERT_TRUE(row.prompt_tokens.empty());
    } else {
      const auto chunk = std::span(common.request.prompt).subspan(start, row.query_len);
      ASSERT_TRUE(std::ranges::equal(row.prompt_tokens, chunk)) << Name(IdOf(row));
    }
    ASSERT_EQ(row.samples, row.context_len >= common.prompt_len());
    ASSERT_EQ(row.sampling.seed, SampleSeed(common.request.sampling.seed, row.sample));
    ASSERT_EQ(row.sample_index, static_cast<uint64_t>(shadow.planned_samples));
    shadow.planned_len = row.context_len;
    shadow.planned_samples += row.samples ? 1 : 0;
    common.shared_planned =
        std::max(common.shared_planned, std::min(row.context_len, common.shared_len));

    const std::vector<int32_t> pages(row.pages.begin(), row.pages.end());
    if (!shadow.row) {
      shadow.row = row.row;
      shadow.pages = pages;
      ASSERT_EQ(static_cast<int32_t>(pages.size()), PagesOf(common.request));
    }
    ASSERT_EQ(*shadow.row, row.row) << Name(IdOf(row)) << " changed its row";
    ASSERT_EQ(shadow.pages, pages) << Name(IdOf(row)) << " changed its pages";
  }

  /// A row reads its own prompt and tokens through its block table, whoever wrote them.
  void CheckHistory(const PlannedRow& row, std::span<const Token> history) const {
    const Shadow& shadow = shadows_.at(IdOf(row));
    std::vector<Token> expected = shadow.request().prompt;
    expected.insert(expected.end(), shadow.reference.begin(), shadow.reference.end());
    ASSERT_LE(history.size(), expected.size()) << Name(IdOf(row));
    ASSERT_TRUE(std::ranges::equal(history, std::span(expected).first(history.size())))
        << Name(IdOf(row)) << " read what is not its own";
  }

  void Commit() {
    const Flight flight = flights_.front();
    for (const PlannedRow& row : flight.plan->rows) {
      ASSERT_TRUE(std::ranges::equal(row.pages, flight.pages.at(IdOf(row))));
      ASSERT_TRUE(std::ranges::equal(row.prompt_tokens, flight.prompt_tokens.at(IdOf(row))));
    }
    const Expected<StepResult> result = forward_.Run(*flight.plan);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    std::vector<TokenEvent> due;
    auto sampled = result->tokens.begin();
    for (const PlannedRow& row : flight.plan->rows) {
      if (!row.samples) continue;
      const Token token = (sampled++)->token;
      if (shadows_[IdOf(row)].phase != Phase::kRunning) continue;
      due.push_back({.request = row.request, .sample = row.sample, .token = token});
    }
    flights_.pop_front();
    const std::span<const TokenEvent> events = scheduler_.Commit(*result);
    ASSERT_EQ(events.size(), due.size());
    for (size_t i = 0; i < due.size(); ++i) {
      ASSERT_EQ(events[i].request, due[i].request);
      ASSERT_EQ(events[i].sample, due[i].sample);
      ASSERT_EQ(events[i].token, due[i].token);
      ASSERT_NO_FATAL_FAILURE(Receive(events[i]));
    }
    ASSERT_FALSE(freed_in_flight_.has_value())
        << "page " << *freed_in_flight_ << " went back while a step in flight may read it";
    CheckState();
  }

  void Receive(const TokenEvent& event) {
    const SampleId id(event.request, event.sample);
    Shadow& shadow = shadows_[id];
    ASSERT_LT(shadow.received, shadow.reference.size()) << Name(id);
    ASSERT_EQ(event.token, shadow.reference[shadow.received++]) << Name(id);
    std::optional<FinishReason> reason;
    if (std::cmp_equal(shadow.received, shadow.request().max_new_tokens)) {
      reason = FinishReason::kBudget;
    }
    if (IsStop(shadow.request(), event.token)) reason = FinishReason::kEndOfText;
    ASSERT_EQ(event.finish, reason) << Name(id);
    if (reason) shadow.phase = Phase::kEnded;
  }

  void ObserveFree(std::span<const int32_t> pages) {
    forward_.Poison(pages);
    for (const Flight& flight : flights_) {
      for (const auto& [id, held] : flight.pages) {
        for (const int32_t page : pages) {
          if (std::ranges::count(held, page) > 0) freed_in_flight_ = page;
        }
      }
    }
  }

  CounterRng rng_;
  uint64_t draw_ = 0;
  Lookahead lookahead_;
  int32_t page_size_;
  int32_t num_pages_;
  int32_t vocab_size_;
  SchedulerConfig config_;
  std::map<RequestId, ShadowRequest> requests_;
  std::map<SampleId, Shadow> shadows_;  ///< In order of age.
  std::map<SampleId, int32_t> starts_;  ///< Where the rows of the plan in hand may go on.
  std::deque<Flight> flights_;
  std::optional<int32_t> freed_in_flight_;
  PagePool pool_;  // After all that its observer uses.
  FakeForward forward_;
  Scheduler scheduler_;
  RequestId next_id_ = 1;
  uint64_t steps_ = 0;
  bool last_plan_empty_ = false;
};

class SchedulerPropertyTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(SchedulerPropertyTest, KeepsItsPromisesInRandomHistories) {
  const int32_t page_size = GetParam();
  for (uint64_t i = 0; i < kHistories; ++i) {
    const uint64_t seed = static_cast<uint64_t>(page_size) * 1'000'000 + i;
    const Lookahead lookahead = i % 2 == 0 ? Lookahead::kNone : Lookahead::kOneStep;
    SCOPED_TRACE(fmt::format("seed {}, page size {}, {}", seed, page_size,
                             lookahead == Lookahead::kNone ? "no lookahead" : "one step ahead"));
    History history(seed, page_size, lookahead);
    history.Run();
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(PageSizes, SchedulerPropertyTest, ::testing::Values(1, 16, 64, 256),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace decant
