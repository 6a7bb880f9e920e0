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

/// What the promises say about one request.
struct Shadow {
  Request request{};
  std::vector<Token> reference{};  ///< What it gets if nobody ends it.
  Phase phase = Phase::kWaiting;
  int32_t planned_len = 0;      ///< Positions in the plans so far.
  int32_t planned_samples = 0;  ///< Samples in the plans so far.
  size_t received = 0;          ///< Tokens that came back.
  bool ended_from_outside = false;
  std::optional<int32_t> row{};  ///< Seen in a plan; never changes.
  std::vector<int32_t> pages{};  ///< Seen in a plan; never change.

  int32_t prompt_len() const { return static_cast<int32_t>(request.prompt.size()); }
};

/// A plan in flight and a copy of what its spans showed when it was made.
struct Flight {
  const StepPlan* plan;
  std::map<RequestId, std::vector<int32_t>> pages{};
  std::map<RequestId, std::vector<Token>> prompt_tokens{};
};

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
  }

  void Run() {
    const int32_t requests = Between(1, 24);
    const int32_t arrival_odds = Between(1, 8);
    const int32_t end_odds = Between(0, 3) == 0 ? 0 : Between(8, 60);
    while (std::cmp_less(shadows_.size(), requests) || !scheduler_.idle()) {
      while (std::cmp_less(shadows_.size(), requests) && Between(0, arrival_odds) == 0) {
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
      ASSERT_EQ(shadow.phase, Phase::kEnded) << "request " << id;
      if (!shadow.ended_from_outside) {
        ASSERT_EQ(shadow.received, shadow.reference.size()) << "request " << id;
      }
    }
    ASSERT_EQ(pool_.free_pages(), num_pages_);
  }

 private:
  int32_t Between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.Below(draw_++, static_cast<uint64_t>(high - low) + 1));
  }

  int32_t PagesOf(const Shadow& shadow) const {
    return (shadow.prompt_len() + shadow.request.max_new_tokens + page_size_ - 1) / page_size_;
  }

  bool InFlight(RequestId id) const {
    return std::ranges::any_of(flights_,
                               [id](const Flight& flight) { return flight.pages.contains(id); });
  }

  /// The promise: a request holds its row and pages while it runs or a step in flight names it.
  bool Holds(const Shadow& shadow) const {
    return shadow.phase == Phase::kRunning || InFlight(shadow.request.id);
  }

  int32_t Count(Phase phase) const {
    return static_cast<int32_t>(std::ranges::count_if(
        shadows_, [phase](const auto& entry) { return entry.second.phase == phase; }));
  }

  int32_t ShadowFreePages() const {
    int32_t free = num_pages_;
    for (const auto& [id, shadow] : shadows_) free -= Holds(shadow) ? PagesOf(shadow) : 0;
    return free;
  }

  /// Compares everything that can be seen from outside with the shadow.
  void CheckState() {
    const Status integrity = pool_.CheckIntegrity();
    ASSERT_TRUE(integrity.ok()) << integrity.ToString();
    ASSERT_EQ(pool_.free_pages(), ShadowFreePages());
    ASSERT_EQ(scheduler_.waiting(), Count(Phase::kWaiting));
    ASSERT_EQ(scheduler_.running(), Count(Phase::kRunning));
    ASSERT_EQ(static_cast<size_t>(scheduler_.in_flight()), flights_.size());
    std::map<int32_t, RequestId> page_holder;
    std::map<int32_t, RequestId> row_holder;
    for (const auto& [id, shadow] : shadows_) {
      if (!Holds(shadow) || !shadow.row) continue;
      ASSERT_TRUE(row_holder.emplace(*shadow.row, id).second)
          << "requests " << row_holder[*shadow.row] << " and " << id << " share row "
          << *shadow.row;
      for (const int32_t page : shadow.pages) {
        ASSERT_TRUE(page_holder.emplace(page, id).second)
            << "requests " << page_holder[page] << " and " << id << " share page " << page;
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
    for (int32_t i = Between(0, 2); i > 0; --i) {
      request.stop_tokens.push_back(Between(0, vocab_size_ - 1));
    }
    const auto total = static_cast<int32_t>(request.prompt.size()) + request.max_new_tokens;
    const Status status = scheduler_.Submit(request);
    ASSERT_EQ(status.ok(), total <= capacity) << status.ToString();
    if (!status.ok()) return;
    ASSERT_FALSE(scheduler_.Submit(request).ok()) << "the same id twice";
    shadows_[id] = Shadow{.request = request, .reference = Reference(request)};
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

  /// Ends a request that may wait, run, be in flight, have ended or never have been.
  void EndSome() {
    const auto id = static_cast<RequestId>(Between(1, static_cast<int32_t>(next_id_)));
    const auto found = shadows_.find(id);
    const bool alive = found != shadows_.end() && found->second.phase != Phase::kEnded;
    ASSERT_EQ(scheduler_.End(id), alive) << "request " << id;
    if (alive) {
      found->second.phase = Phase::kEnded;
      found->second.ended_from_outside = true;
    }
    CheckState();
  }

  void Next() {
    for (auto& [id, shadow] : shadows_) {  // ids ascend: the order of arrival
      if (shadow.phase != Phase::kWaiting) continue;
      const auto rows = std::ranges::count_if(
          shadows_, [this](const auto& entry) { return Holds(entry.second); });
      if (rows == config_.max_batch || PagesOf(shadow) > ShadowFreePages()) break;
      shadow.phase = Phase::kRunning;
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
        flight.pages[row.request] = {row.pages.begin(), row.pages.end()};
        flight.prompt_tokens[row.request] = {row.prompt_tokens.begin(), row.prompt_tokens.end()};
      }
      flights_.push_back(flight);
    } else {
      ASSERT_TRUE(scheduler_.idle() || !flights_.empty()) << "nothing moves any more";
    }
    CheckState();
  }

  /// Who computes how much: every decode token; chunks up to the limit, none for a row while an
  /// older one has prompt left.
  void CheckShares(const StepPlan& plan) {
    std::map<RequestId, int32_t> query_len;
    int32_t last_row = -1;
    for (const PlannedRow& row : plan.rows) {
      ASSERT_GT(row.row, last_row) << "rows are in order";
      last_row = row.row;
      ASSERT_TRUE(query_len.emplace(row.request, row.query_len).second);
      ASSERT_TRUE(shadows_.contains(row.request));
      ASSERT_EQ(shadows_[row.request].phase, Phase::kRunning) << "request " << row.request;
    }
    int32_t unread = 0;
    int32_t read = 0;
    int32_t decoded = 0;
    bool older_has_prompt_left = false;
    for (const auto& [id, shadow] : shadows_) {
      if (shadow.phase != Phase::kRunning) continue;
      const int32_t len = query_len.contains(id) ? query_len[id] : 0;
      const int32_t left = shadow.prompt_len() - shadow.planned_len;
      if (left > 0) {
        ASSERT_LE(len, left);
        ASSERT_TRUE(len == 0 || !older_has_prompt_left) << "request " << id << " jumps the queue";
        older_has_prompt_left = older_has_prompt_left || len < left;
        unread += left;
        read += len;
      } else {
        const bool goes_on = shadow.planned_samples < shadow.request.max_new_tokens;
        ASSERT_EQ(len, goes_on ? 1 : 0) << "request " << id;
        decoded += len;
      }
    }
    ASSERT_EQ(read, std::min(unread, config_.chunk_tokens));
    ASSERT_EQ(plan.prompt_tokens, read);
    ASSERT_EQ(plan.decode_tokens, decoded);
  }

  /// What a row's fields say, and that positions follow on each other.
  void CheckRow(const PlannedRow& row) {
    Shadow& shadow = shadows_[row.request];
    const bool decodes = shadow.planned_len >= shadow.prompt_len();
    ASSERT_EQ(row.context_len - row.query_len, shadow.planned_len) << "request " << row.request;
    if (decodes) {
      ASSERT_TRUE(row.prompt_tokens.empty());
    } else {
      const auto chunk =
          std::span(shadow.request.prompt).subspan(shadow.planned_len, row.query_len);
      ASSERT_TRUE(std::ranges::equal(row.prompt_tokens, chunk)) << "request " << row.request;
    }
    ASSERT_EQ(row.samples, row.context_len >= shadow.prompt_len());
    ASSERT_EQ(row.sampling.seed, shadow.request.sampling.seed);
    ASSERT_EQ(row.sample_index, static_cast<uint64_t>(shadow.planned_samples));
    shadow.planned_len = row.context_len;
    shadow.planned_samples += row.samples ? 1 : 0;

    const std::vector<int32_t> pages(row.pages.begin(), row.pages.end());
    if (!shadow.row) {
      shadow.row = row.row;
      shadow.pages = pages;
      ASSERT_EQ(static_cast<int32_t>(pages.size()), PagesOf(shadow));
    }
    ASSERT_EQ(*shadow.row, row.row) << "request " << row.request << " changed its row";
    ASSERT_EQ(shadow.pages, pages) << "request " << row.request << " changed its pages";
  }

  void Commit() {
    const Flight flight = flights_.front();
    for (const PlannedRow& row : flight.plan->rows) {
      ASSERT_TRUE(std::ranges::equal(row.pages, flight.pages.at(row.request)));
      ASSERT_TRUE(std::ranges::equal(row.prompt_tokens, flight.prompt_tokens.at(row.request)));
    }
    const Expected<StepResult> result = forward_.Run(*flight.plan);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    std::vector<TokenEvent> due;
    for (const SampledToken& sampled : result->tokens) {
      const Shadow& shadow = shadows_[sampled.request];
      if (shadow.phase == Phase::kRunning) due.push_back({sampled.request, sampled.token});
    }
    flights_.pop_front();
    const std::span<const TokenEvent> events = scheduler_.Commit(*result);
    ASSERT_EQ(events.size(), due.size());
    for (size_t i = 0; i < due.size(); ++i) {
      ASSERT_EQ(events[i].request, due[i].request);
      ASSERT_EQ(events[i].token, due[i].token);
      ASSERT_NO_FATAL_FAILURE(Receive(events[i]));
    }
    ASSERT_FALSE(freed_in_flight_.has_value())
        << "page " << *freed_in_flight_ << " went back while a step in flight may read it";
    CheckState();
  }

  void Receive(const TokenEvent& event) {
    Shadow& shadow = shadows_[event.request];
    ASSERT_LT(shadow.received, shadow.reference.size()) << "request " << event.request;
    ASSERT_EQ(event.token, shadow.reference[shadow.received++]) << "request " << event.request;
    std::optional<FinishReason> reason;
    if (std::cmp_equal(shadow.received, shadow.request.max_new_tokens)) {
      reason = FinishReason::kBudget;
    }
    if (IsStop(shadow.request, event.token)) reason = FinishReason::kEndOfText;
    ASSERT_EQ(event.finish, reason) << "request " << event.request;
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
  std::map<RequestId, Shadow> shadows_;
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
