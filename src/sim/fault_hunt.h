#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/fault_history.h"
#include "sim/fault_run.h"
#include "sim/scheduler_subject.h"

namespace decant {

struct HuntOptions {
  uint64_t first_seed = 0;  ///< History i is drawn from seed first_seed + i.
  int64_t histories = 0;
  int32_t threads = 1;
  size_t most_shrunk = 3;  ///< Of the faults found, so many are kept and shrunk.
};

struct FoundFault {
  uint64_t seed = 0;
  Breach breach{};
  size_t events = 0;      ///< Of the history as it was drawn.
  FaultHistory shrunk{};  ///< Breaks the same promise.
};

struct HuntResult {
  int64_t histories = 0;  ///< Fewer than asked for after an interrupt.
  int64_t failed = 0;     ///< Histories that broke a promise.
  HistoryCounts counts{};
  std::vector<FoundFault> faults{};  ///< Those with the smallest seeds, in order of seed.
};

/// Draws histories and runs them on `threads` threads; ends early when the person interrupts.
/// `advance` is told how many more are done, by any of the threads. The result does not depend on
/// the number of threads.
HuntResult HuntFaults(const HuntOptions& options, const SubjectFactory& make_subject,
                      const std::function<void(int64_t)>& advance);

/// From now on, a check that aborts the program while a history runs also says its seed on stderr.
void NameSeedOnAbort();

}  // namespace decant
