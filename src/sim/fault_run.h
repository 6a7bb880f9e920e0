#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sched/promise_checker.h"
#include "sim/fault_history.h"
#include "sim/scheduler_subject.h"

namespace decant {

/// How much happened. Endings count samples.
struct HistoryCounts {
  int64_t turns = 0;
  int64_t steps = 0;
  int64_t requests = 0;  ///< Accepted.
  int64_t refused = 0;   ///< Could never fit, or came after the end of the engine.
  int64_t tokens = 0;    ///< That arrived.
  int64_t finished = 0;
  int64_t cancelled = 0;
  int64_t failed = 0;
  int64_t cut_off = 0;  ///< Times that a slow reader was cut off for what it had not read.

  HistoryCounts& operator+=(const HistoryCounts& other);
};

struct HistoryOutcome {
  Verdict breach{};
  size_t breach_event = 0;  ///< In which event it showed; past the last one: in the turns after.
  HistoryCounts counts{};
};

/// Lets a history happen to a scheduler, through a loop that does what Engine's does, and looks at
/// the promises after every call. The forward runs as late as it may, just before its step is
/// committed, over memory that is poisoned as soon as a page is freed. Ends with the first breach.
HistoryOutcome RunHistory(const FaultHistory& history, const SubjectFactory& make_subject);

}  // namespace decant
