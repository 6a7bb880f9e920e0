#include "sim/shrink_history.h"

#include <algorithm>
#include <utility>

#include "sim/fault_run.h"

namespace decant {
namespace {

class Shrinker {
 public:
  Shrinker(FaultHistory history, Promise promise, const SubjectFactory& make_subject,
           int32_t most_runs)
      : best_(std::move(history)),
        promise_(promise),
        make_subject_(make_subject),
        runs_left_(most_runs) {}

  FaultHistory Shrink() {
    DropWhatComesAfter();
    do {
      improved_ = false;
      DropEvents();
      SimplifyEvents();
      SimplifySetup();
    } while (improved_ && runs_left_ > 0);
    return best_;
  }

 private:
  /// Makes `candidate` the best one if it breaks the promise.
  bool Try(const FaultHistory& candidate) {
    if (runs_left_ <= 0) return false;
    --runs_left_;
    const HistoryOutcome outcome = RunHistory(candidate, make_subject_);
    if (!outcome.breach || outcome.breach->promise != promise_) return false;
    best_ = candidate;
    improved_ = true;
    return true;
  }

  void DropWhatComesAfter() {
    const HistoryOutcome outcome = RunHistory(best_, make_subject_);
    if (outcome.breach_event + 1 >= best_.events.size()) return;
    FaultHistory candidate = best_;
    candidate.events.resize(outcome.breach_event + 1);
    Try(candidate);
  }

  /// Leaves out runs of events, long ones first.
  void DropEvents() {
    for (size_t length = std::max<size_t>(best_.events.size() / 2, 1); length > 0; length /= 2) {
      bool dropped = true;
      while (dropped && runs_left_ > 0) {
        dropped = false;
        for (size_t first = 0; first < best_.events.size();) {
          FaultHistory candidate = best_;
          const auto begin = candidate.events.begin() + static_cast<std::ptrdiff_t>(first);
          const size_t count = std::min(length, candidate.events.size() - first);
          candidate.events.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
          if (Try(candidate)) {
            dropped = true;
          } else {
            first += length;
          }
        }
      }
    }
  }

  /// Tries smaller values of the number that `number` finds in a history.
  template <typename Number>
  void MakeSmaller(int32_t least, Number number) {
    bool smaller = true;
    while (smaller && runs_left_ > 0) {
      smaller = false;
      const int32_t value = number(best_);
      for (const int32_t next : {least, (least + value) / 2, value - 1}) {
        if (next < least || next >= value) continue;
        FaultHistory candidate = best_;
        number(candidate) = next;
        if (Try(candidate)) {
          smaller = true;
          break;
        }
      }
    }
  }

  template <typename Flag>
  void MakePlain(bool plain, Flag flag) {
    if (flag(best_) == plain) return;
    FaultHistory candidate = best_;
    flag(candidate) = plain;
    Try(candidate);
  }

  void SimplifyEvents() {
    for (size_t i = 0; i < best_.events.size(); ++i) {
      if (std::holds_alternative<ArrivalEvent>(best_.events[i])) SimplifyArrival(i);
      if (std::holds_alternative<TurnEvent>(best_.events[i])) {
        const auto turn = [i](FaultHistory& history) -> TurnEvent& {
          return std::get<TurnEvent>(history.events[i]);
        };
        MakePlain(false, [&](FaultHistory& history) -> bool& { return turn(history).stalls; });
        MakePlain(false,
                  [&](FaultHistory& history) -> bool& { return turn(history).waits_for_all; });
      }
    }
  }

  void SimplifyArrival(size_t i) {
    const std::pair<int32_t, int32_t ArrivalEvent::*> numbers[] = {
        {1, &ArrivalEvent::prompt_tokens}, {1, &ArrivalEvent::budget},
        {1, &ArrivalEvent::samples},       {0, &ArrivalEvent::end_tokens},
        {0, &ArrivalEvent::stop_after},    {0, &ArrivalEvent::turns_a_token}};
    for (const auto& [least, member] : numbers) {
      MakeSmaller(least, [i, member = member](FaultHistory& history) -> int32_t& {
        return std::get<ArrivalEvent>(history.events[i]).*member;
      });
    }
    const std::pair<bool, bool ArrivalEvent::*> flags[] = {{true, &ArrivalEvent::greedy},
                                                           {false, &ArrivalEvent::twice}};
    for (const auto& [plain, member] : flags) {
      MakePlain(plain, [i, member = member](FaultHistory& history) -> bool& {
        return std::get<ArrivalEvent>(history.events[i]).*member;
      });
    }
  }

  void SimplifySetup() {
    MakeSmaller(1, [](FaultHistory& history) -> int32_t& { return history.setup.num_pages; });
    MakeSmaller(1, [](FaultHistory& history) -> int32_t& { return history.setup.page_size; });
    MakeSmaller(
        1, [](FaultHistory& history) -> int32_t& { return history.setup.scheduler.max_batch; });
    MakeSmaller(
        1, [](FaultHistory& history) -> int32_t& { return history.setup.scheduler.chunk_tokens; });
    MakeSmaller(2, [](FaultHistory& history) -> int32_t& {
      return history.setup.scheduler.limits.max_model_len;
    });
    if (best_.setup.lookahead == Lookahead::kNone) return;
    FaultHistory candidate = best_;
    candidate.setup.lookahead = Lookahead::kNone;
    Try(candidate);
  }

  FaultHistory best_;
  const Promise promise_;
  const SubjectFactory& make_subject_;
  int32_t runs_left_;
  bool improved_ = false;
};

}  // namespace

FaultHistory ShrinkHistory(const FaultHistory& history, Promise promise,
                           const SubjectFactory& make_subject, int32_t most_runs) {
  return Shrinker(history, promise, make_subject, most_runs).Shrink();
}

}  // namespace decant
