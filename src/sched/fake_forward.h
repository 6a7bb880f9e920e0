#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sched/step_plan.h"

namespace decant {

/// Stands in for a model in tests and simulations: the next token is a hash of the whole history
/// (and of the draw, if the request is not greedy). It keeps that history in paged memory, as a
/// real forward keeps K and V, and reads it back through the block tables of the plans it runs: a
/// page that went to two rows, went back too early or was read before it was written gives an error
/// or another token. A slot is written once until its page is poisoned: pages that are freed to be
/// used again must be.
class FakeForward {
 public:
  /// Told of what a row read: its history, the tokens of this step included.
  using HistoryObserver =
      std::function<void(const PlannedRow& row, std::span<const Token> history)>;

  FakeForward(int32_t num_pages, int32_t page_size, int32_t max_batch, int32_t vocab_size);

  /// Runs a step after all earlier ones. Internal error when the plan is not one that a real
  /// forward could run: the message says what is wrong with it.
  Expected<StepResult> Run(const StepPlan& plan);

  void set_history_observer(HistoryObserver observer) { history_observer_ = std::move(observer); }

  /// Makes what the pages hold unusable; a row that reads them afterwards is an error.
  void Poison(std::span<const int32_t> pages);

  /// The token that follows `history`, draw number `sample_index` of a request.
  Token NextToken(std::span<const Token> history, const SamplingParams& sampling,
                  uint64_t sample_index) const;

 private:
  /// What one position left in its slot.
  struct Slot {
    int32_t position;
    Token token;
  };

  Status Append(const PlannedRow& row);
  Status ReadHistory(const PlannedRow& row);
  Slot& SlotAt(const PlannedRow& row, int32_t position);

  int32_t page_size_;
  int32_t vocab_size_;
  std::vector<Slot> slots_;
  /// What each row sampled in the last step that ran; absent if it sampled nothing.
  std::vector<std::optional<Token>> last_token_;
  std::vector<Token> history_;
  HistoryObserver history_observer_;
};

}  // namespace decant
