// Random histories of a scheduler for each page size, half of them with a step in flight, with
// calls at moments that the engine's loop does not choose (src/sim/fault_run.cc does what that
// does). The forward runs as late as it may, just before a step is committed, over memory that is
// poisoned as soon as a page is freed.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/random.h"
#include "base/testing/sanitized.h"
#include "sched/fake_forward.h"
#include "sched/promise_checker.h"
#include "sched/scheduler.h"

namespace decant {
namespace {

constexpr uint64_t kHistories = kSanitized ? 200 : 1000;  // For each page size.

enum class Lookahead { kNone, kOneStep };

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
        checker_(config_, num_pages_, page_size),
        forward_(num_pages_, page_size, config_.max_batch, vocab_size_),
        pool_(num_pages_, page_size),
        scheduler_(config_, pool_) {
    pool_.set_free_observer([this](std::span<const int32_t> pages) {
      forward_.Poison(pages);
      checker_.Freed(pages);
    });
    forward_.set_history_observer([this](const PlannedRow& row, std::span<const Token> history) {
      if (!read_wrongly_) read_wrongly_ = checker_.Read(row, history);
    });
  }

  Verdict Run() {
    const int32_t requests = Between(1, 24);
    const int32_t arrival_odds = Between(1, 8);
    const int32_t end_odds = Between(0, 3) == 0 ? 0 : Between(8, 60);
    while (last_id_ < requests || !scheduler_.idle()) {
      while (last_id_ < requests && Between(0, arrival_odds) == 0) {
        DECANT_RETURN_IF_BROKEN(Submit());
      }
      if (end_odds > 0 && Between(0, end_odds) == 0) DECANT_RETURN_IF_BROKEN(EndSome());
      // As an engine that chooses each step's chunk.
      const int32_t chunk = Between(1, config_.chunk_tokens);
      const StepLoad foreseen = LoadAt(scheduler_.Outlook(), chunk);
      const StepPlan& plan = scheduler_.Next(chunk);
      DECANT_RETURN_IF_BROKEN(checker_.Planned(plan, chunk));
      DECANT_RETURN_IF_BROKEN(PromiseChecker::CheckOutlook(foreseen, plan));
      DECANT_RETURN_IF_BROKEN(CheckState());
      if (!plan.empty()) flights_.push_back(&plan);
      if (end_odds > 0 && Between(0, end_odds) == 0) DECANT_RETURN_IF_BROKEN(EndSome());
      const size_t may_fly = lookahead_ == Lookahead::kOneStep && Between(0, 9) > 0 ? 1 : 0;
      while (flights_.size() > may_fly || (plan.empty() && !flights_.empty())) {
        DECANT_RETURN_IF_BROKEN(Commit());
      }
    }
    return checker_.CheckAllEnded();
  }

 private:
  int32_t Between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.Below(draw_++, static_cast<uint64_t>(high - low) + 1));
  }

  Verdict CheckState() const {
    return checker_.CheckState({.waiting = scheduler_.waiting(),
                                .running = scheduler_.running(),
                                .in_flight = scheduler_.in_flight(),
                                .free_pages = pool_.free_pages(),
                                .integrity = pool_.CheckIntegrity()});
  }

  Verdict Submit() {
    const int32_t capacity = std::min(config_.limits.max_model_len, num_pages_ * page_size_);
    Request request{.id = static_cast<RequestId>(++last_id_)};
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
    const Status status = scheduler_.Submit(request);
    DECANT_RETURN_IF_BROKEN(checker_.Submitted(request, status));
    if (status.ok()) {
      DECANT_RETURN_IF_BROKEN(checker_.Submitted(request, scheduler_.Submit(request)));
    }
    return CheckState();
  }

  /// Ends a request, or one sample of it, that may wait, run, be in flight, have ended or never
  /// have been.
  Verdict EndSome() {
    const auto id = static_cast<RequestId>(Between(1, last_id_ + 1));
    std::optional<int32_t> sample = Between(-2, 4);
    if (*sample < 0) sample.reset();
    const bool must_end = checker_.Ending(id, sample);
    const bool ended = sample ? scheduler_.End(id, *sample) : scheduler_.End(id);
    if (ended != must_end) {
      return Breach{Promise::kEndsOnce, fmt::format("to end request {}: {}", id, ended)};
    }
    return CheckState();
  }

  Verdict Commit() {
    const Expected<StepResult> result = forward_.Run(*flights_.front());
    if (!result.ok()) return Breach{Promise::kContext, result.status().ToString()};
    if (read_wrongly_) return read_wrongly_;
    DECANT_RETURN_IF_BROKEN(checker_.Ran(*result));
    flights_.pop_front();
    DECANT_RETURN_IF_BROKEN(checker_.Committed(scheduler_.Commit(*result)));
    return CheckState();
  }

  CounterRng rng_;
  uint64_t draw_ = 0;
  Lookahead lookahead_;
  int32_t page_size_;
  int32_t num_pages_;
  int32_t vocab_size_;
  SchedulerConfig config_;
  std::deque<const StepPlan*> flights_;
  Verdict read_wrongly_;
  PromiseChecker checker_;
  FakeForward forward_;
  PagePool pool_;  // After all that its observer uses.
  Scheduler scheduler_;
  int32_t last_id_ = 0;
};

class SchedulerPropertyTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(SchedulerPropertyTest, KeepsItsPromisesInRandomHistories) {
  const int32_t page_size = GetParam();
  for (uint64_t i = 0; i < kHistories; ++i) {
    const uint64_t seed = static_cast<uint64_t>(page_size) * 1'000'000 + i;
    const Lookahead lookahead = i % 2 == 0 ? Lookahead::kNone : Lookahead::kOneStep;
    const Verdict breach = History(seed, page_size, lookahead).Run();
    ASSERT_FALSE(breach.has_value())
        << "seed " << seed << ", page size " << page_size << ", "
        << (lookahead == Lookahead::kNone ? "no lookahead" : "one step ahead") << ": "
        << PromiseName(breach->promise) << ": " << breach->what;
  }
}

INSTANTIATE_TEST_SUITE_P(PageSizes, SchedulerPropertyTest, ::testing::Values(1, 16, 64, 256),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace decant
