#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sched/request.h"
#include "sched/scheduler.h"
#include "sched/step_plan.h"

namespace decant {

/// What the scheduler and the pool promise (docs/architecture.md), by what would be broken.
enum class Promise {
  kAdmission,     ///< Strictly first come, first served; what can never fit is refused.
  kReservation,   ///< Whole pages for prompt and budget, from admission to the end.
  kPages,         ///< Every page is free or leased, and to one request only.
  kPageInFlight,  ///< A page that a step in flight may read is not given away.
  kBatch,         ///< At most max_batch rows, each held by one sample.
  kChunk,         ///< At most chunk_tokens prompt tokens a step, oldest row first.
  kDecode,        ///< Every row whose prompt is read gets its decode token in every step.
  kContext,       ///< Positions follow on each other; a row reads what is its own.
  kTokens,        ///< Every sampled token arrives once, in order, drawn with its own seed.
  kEndsOnce,      ///< Every sample ends once, and nothing of it runs or arrives afterwards.
  kMoves,         ///< While anything waits or runs, there is something to compute.
};

inline constexpr int kPromises = 11;

/// "admission", "reservation", ...
std::string_view PromiseName(Promise promise);

/// A promise that was not kept.
struct Breach {
  Promise promise = Promise::kAdmission;
  std::string what;
};

/// Nothing: all is well.
using Verdict = std::optional<Breach>;

/// What can be seen of a scheduler and its pool between two calls.
struct SchedulerView {
  int32_t waiting = 0;
  int32_t running = 0;
  int32_t in_flight = 0;
  int32_t free_pages = 0;
  Status integrity{};  ///< PagePool::CheckIntegrity.
};

/// Keeps books of its own beside a scheduler: who waits, who runs, which rows and pages are held.
/// It shares no code with the scheduler and the pool and knows only what goes into them and comes
/// out, from which it predicts everything that can be seen next. For property tests and simulations
/// over a FakeForward, whose sampled tokens it is told of.
///
/// Ids of accepted requests are never used again, and rise in order of arrival. Once there is a
/// breach, the checker must not be used any more.
class PromiseChecker {
 public:
  PromiseChecker(const SchedulerConfig& config, int32_t num_pages, int32_t page_size);
  PromiseChecker(const PromiseChecker&) = delete;
  PromiseChecker& operator=(const PromiseChecker&) = delete;

  /// After Scheduler::Submit, whose answer is judged.
  Verdict Submitted(const Request& request, const Status& answer);

  /// Before Scheduler::End: what it must answer. Without a sample: all that are left.
  bool Ending(RequestId id, std::optional<int32_t> sample);

  /// Before Scheduler::Abandon.
  void Abandoning();

  /// After Scheduler::Next. `plan` must stay where it is until Ran was told of it.
  Verdict Planned(const StepPlan& plan) { return Planned(plan, config_.chunk_tokens); }
  /// Where Next was told how many prompt tokens the step may have.
  Verdict Planned(const StepPlan& plan, int32_t chunk_tokens);

  /// After Scheduler::Outlook, with what the plan that Next then made computes.
  static Verdict CheckOutlook(const StepLoad& foreseen, const StepPlan& plan);

  /// What a row read while the oldest step in flight ran: its history, this step's included.
  Verdict Read(const PlannedRow& row, std::span<const Token> history) const;

  /// The oldest step in flight has run and is about to be committed.
  Verdict Ran(const StepResult& result);

  /// After Scheduler::Commit.
  Verdict Committed(std::span<const TokenEvent> events) const;

  /// The pool's free observer. Its verdict comes with the next CheckState.
  void Freed(std::span<const int32_t> pages);

  /// Between any two calls.
  Verdict CheckState(const SchedulerView& view) const;

  /// What Scheduler::Progress says, between any two calls.
  Verdict CheckProgress(std::span<const RowProgress> progress) const;

  /// Once nothing more can happen: all ended, all pages are back.
  Verdict CheckAllEnded() const;

  /// What was sampled for a sample and not dropped, in order. The sample must be known.
  std::span<const Token> TokensOf(RequestId id, int32_t sample) const;

 private:
  enum class Phase { kWaiting, kRunning, kEnded };
  struct RequestBook;

  struct SampleBook {
    RequestBook* request = nullptr;
    int32_t number = 0;
    Phase phase = Phase::kWaiting;
    bool holds = false;                   ///< A row and pages.
    int32_t flights = 0;                  ///< Steps in flight that name it.
    int32_t planned_len = 0;              ///< Positions in its plans, and shared ones before them.
    int32_t planned_samples = 0;          ///< Draws in its plans.
    std::optional<int32_t> start{};       ///< Where the plan in hand may go on.
    const PlannedRow* in_plan = nullptr;  ///< Its share of the plan in hand.
    std::vector<Token> tokens{};          ///< Sampled by steps that ran.
    size_t received = 0;                  ///< Of these, those that were to arrive.
    std::optional<int32_t> row{};         ///< Seen in a plan; never changes.
    std::vector<int32_t> pages{};         ///< Seen in a plan; never change.
  };

  struct RequestBook {
    Request request{};
    std::vector<SampleBook> samples{};
    int32_t shared_len = 0;      ///< Positions that are computed once.
    int32_t shared_planned = 0;  ///< Of these, in the plans so far.
    int32_t waiting = 0;         ///< Samples that wait.
    int32_t holders = 0;         ///< Samples that hold a row and pages.
  };

  /// Who holds a page, as plans have shown it.
  struct PageBook {
    RequestId request = 0;
    int32_t place = 0;    ///< In the block tables.
    int32_t holders = 0;  ///< Samples.
    int32_t flights = 0;  ///< Rows of steps in flight.
  };

  struct Flight {
    const StepPlan* plan;
    std::vector<SampleBook*> rows;  ///< In plan order.
  };

  int32_t PromptLen(const RequestBook& book) const;
  int32_t PagesOfOne(const Request& request) const;
  int32_t PagesOf(const RequestBook& book, int32_t samples) const;
  Verdict CheckProgress(const RowProgress& told) const;
  SampleBook* Find(RequestId id, int32_t sample);
  const SampleBook* Find(RequestId id, int32_t sample) const;
  std::optional<int32_t> Start(const SampleBook& sample) const;
  void AdmitWhatFits();
  Verdict FindRows(const StepPlan& plan);
  Verdict CheckShares(const StepPlan& plan, int32_t chunk_tokens);
  Verdict CheckRow(const PlannedRow& planned, SampleBook& sample);
  Verdict TakePlace(const PlannedRow& planned, SampleBook& sample);
  void EndSample(SampleBook& sample);
  void LetGo(SampleBook& sample);

  const SchedulerConfig config_;
  const int32_t num_pages_;
  const int32_t page_size_;
  std::unordered_map<RequestId, RequestBook> requests_;
  std::deque<RequestBook*> waiting_;     ///< In order of arrival.
  std::vector<SampleBook*> running_;     ///< Oldest first.
  std::vector<const SampleBook*> rows_;  ///< [max_batch], who was seen in a row and holds it.
  std::vector<PageBook> pages_;          ///< [num_pages]
  int32_t rows_held_ = 0;
  int32_t free_pages_;
  std::deque<Flight> flights_;
  std::vector<TokenEvent> due_;  ///< What the next Commit must return.
  uint64_t steps_ = 0;
  RequestId last_id_ = 0;
  Verdict freed_wrongly_;
};

}  // namespace decant

/// Returns the breach of a Verdict expression from the enclosing function, if it is one.
#define DECANT_RETURN_IF_BROKEN(expr)                                                        \
  do {                                                                                       \
    if (::decant::Verdict decant_verdict_ = (expr); decant_verdict_) return decant_verdict_; \
  } while (false)
