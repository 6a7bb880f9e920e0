#pragma once

#include "sched/promise_checker.h"
#include "sim/fault_history.h"
#include "sim/scheduler_subject.h"

namespace decant {

/// A smaller history that breaks the same promise: events are left out while it stays broken (delta
/// debugging: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002),
/// then numbers are made smaller. `history` must break `promise`. The result breaks it too, and no
/// single event can be left out of it, unless `most_runs` histories were tried before.
FaultHistory ShrinkHistory(const FaultHistory& history, Promise promise,
                           const SubjectFactory& make_subject, int32_t most_runs = 20000);

}  // namespace decant
