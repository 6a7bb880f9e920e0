#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "cache/page_pool.h"
#include "sched/request.h"
#include "sched/step_load.h"
#include "sched/step_plan.h"

namespace decant {

struct SchedulerConfig {
  int32_t max_batch = 32;      ///< Most rows.
  int32_t chunk_tokens = 512;  ///< Most prompt tokens a step, all rows together.
  RequestLimits limits{};
};

/// Refuses a max_batch, chunk_tokens, max_model_len or vocab_size below 1, by name.
Status ValidateSchedulerConfig(const SchedulerConfig& config);

/// A token that a request's sample got, and whether it was the last one.
struct TokenEvent {
  RequestId request = 0;
  int32_t sample = 0;
  Token token = 0;                        ///< With kEndOfText: the stop token itself.
  std::optional<FinishReason> finish{};   ///< kBudget or kEndOfText.
  const SampledToken* sampled = nullptr;  ///< In the committed result: for its logprobs.
};

/// How far a sample that holds a row is.
struct RowProgress {
  RequestId request = 0;
  int32_t sample = 0;
  int32_t row = 0;
  int32_t prompt_tokens = 0;
  int32_t prompt_done = 0;  ///< Positions of the prompt computed, the steps in flight included.
  int32_t generated_tokens = 0;
  int32_t budget = 0;  ///< Tokens that it may generate.
};

/// Decides what each step computes: a state machine without I/O, clock or threads.
///
/// Admission is strictly first come, first served: a request starts when a row and the pages for
/// its whole prompt and budget are free, and until then all behind it wait too. Nothing that has
/// started is ever put back, so the oldest rows always finish and everything gets its turn.
///
/// A request of n samples is admitted whole: n rows that share the pages which lie wholly before
/// the prompt's last token. The oldest sample that lives computes the shared positions; the others
/// wait, then start behind them in a later step, so that what they read has been written whatever
/// the order of work within a step. Each computes the prompt's last token at least, for logits to
/// sample from, and ends by itself; a shared page goes back with the last sample that holds it.
/// Sample 0, as long as it lives, is the oldest and computes the whole prompt.
///
/// One step may be in flight: Next may be called while one earlier step is not committed. A row
/// whose token is still in flight is planned without knowing it; should that token end the
/// request, what the later step samples for the row is dropped. The row's place, its pages and its
/// plan's spans stay untouched until every step that was planned with them is committed.
class Scheduler {
 public:
  /// `config` must be valid; `pool` must outlive the scheduler.
  Scheduler(const SchedulerConfig& config, PagePool& pool);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Why `request` could never run: what ValidateRequest refuses, fewer than 1 or more than
  /// max_batch samples (invalid argument), or pages over the whole pool (resource exhausted). Reads
  /// nothing that ever changes: callable from any thread.
  Status Validate(const Request& request) const;

  /// Puts a request at the end of the queue; refuses what Validate refuses, and an id whose request
  /// still waits or holds a row (invalid argument).
  Status Submit(Request request);

  /// Admits what fits and plans the next step: one decode token for every row whose prompt is read
  /// and whose budget is not planned to the end; prompt chunks with the rest, oldest row first.
  /// Empty when there is nothing to compute before the step in flight is committed, or at all. The
  /// plan stays in place until it is committed (an empty one: until the next call).
  const StepPlan& Next() { return Next(config_.chunk_tokens); }

  /// The same with fewer prompt tokens: `chunk_tokens` in [1, SchedulerConfig::chunk_tokens] is
  /// this step's limit.
  const StepPlan& Next(int32_t chunk_tokens);

  /// Admits what fits and says what the next step, if planned now, has to compute and to choose
  /// from. Valid until the next call of anything.
  const StepOutlook& Outlook();

  /// Takes the tokens of the oldest step not yet committed, which must be one for each row that
  /// samples in it, in plan order. Returns what the requests got, in plan order, valid until the
  /// next call; tokens of samples that ended meanwhile are dropped.
  std::span<const TokenEvent> Commit(const StepResult& result);

  /// Ends all samples of a request that are left, wherever it stands: cancelled. It gets no event
  /// any more. False if none waits or runs (all ended before).
  bool End(RequestId id);

  /// Ends one sample and leaves the others: its text came to a stop string, or nobody wants it. It
  /// gets no event any more. False if it neither waits nor runs.
  bool End(RequestId id, int32_t sample);

  /// Ends all requests and forgets the steps in flight, whose plans die: for a device that failed.
  void Abandon();

  /// Requests in the queue.
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
  /// Samples that hold a row and have not ended.
  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  /// Those samples, in order of row, in place of what `progress` holds.
  void Progress(std::vector<RowProgress>& progress) const;
  /// Steps planned and not committed, 0 to 2.
  int32_t in_flight() const { return static_cast<int32_t>(planned_ - committed_); }
  /// Nothing waits, runs or is in flight.
  bool idle() const { return waiting_.empty() && running_.empty() && in_flight() == 0; }
  const SchedulerConfig& config() const { return config_; }

 private:
  /// A request and what its samples have in common.
  struct Group {
    Request request{};
    std::vector<int32_t> samples{};  ///< Numbers of those that were not ended while they waited.
    int32_t shared_len = 0;          ///< Positions whose pages all samples hold.
    int32_t shared_planned = 0;      ///< Of these, computed, the steps in flight included.
    uint64_t shared_ready = 0;       ///< The first step that may go on from there.
  };
  using Queue = std::list<std::shared_ptr<Group>>;

  /// A sample that holds a row: running, or ended with a step in flight that may read it.
  struct Row {
    std::shared_ptr<Group> group{};
    int32_t sample = 0;
    SamplingParams sampling{};
    PageLease lease{};
    /// Positions computed, by itself or for all samples, the steps in flight included.
    int32_t context_len = 0;
    int32_t samples_planned = 0;   ///< Tokens sampled, the steps in flight included.
    int32_t tokens_committed = 0;  ///< Tokens sampled and known.
    uint64_t free_at = 0;          ///< How many steps must be committed before it may go.
    bool ended = false;
  };

  PageGroup PagesOf(const Request& request, int32_t samples) const;
  void Admit();
  void PlanRow(int32_t index, int32_t chunk_tokens, StepPlan& plan);
  TokenEvent AppendToken(Row& row, const SampledToken& sampled);
  template <typename Predicate>
  bool EndRows(Predicate ends);
  void FreeEndedRows();

  const SchedulerConfig config_;
  PagePool& pool_;
  Queue waiting_;  ///< In order of arrival.
  std::unordered_map<RequestId, Queue::iterator> waiting_by_id_;
  std::vector<std::optional<Row>> rows_;  ///< [max_batch]
  std::vector<int32_t> running_;          ///< Rows that have not ended, oldest first.
  std::array<StepPlan, 2> plans_;         ///< Step n lies at n % 2.
  uint64_t planned_ = 0;                  ///< Steps planned so far: the next step's number.
  uint64_t committed_ = 0;                ///< Steps committed: the oldest number in flight.
  std::vector<TokenEvent> events_;
  StepOutlook outlook_;
};

}  // namespace decant
