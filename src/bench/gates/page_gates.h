#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/gates/engine_gate.h"
#include "bench/gates/gate_report.h"
#include "bench/gates/served_run.h"

namespace decant {

/// A request of the wide-pages gate as its rows were planned.
struct HeldPages {
  int32_t positions = 0;         ///< Prompt and budget.
  std::vector<int32_t> pages{};  ///< Its block table, the same in every step.
  uint64_t first_step = 0;       ///< Of the steps it has a row in.
  uint64_t last_step = 0;
};

/// What strict admission at some page size must show: each request holds its positions rounded up
/// to whole pages; no page is in two rows of a step; at most `num_pages` are held at a time;
/// requests start in order; and a request starts late only where, with it, too many pages would
/// have been held. `held` is in order of submission. Returns what is wrong.
std::vector<std::string> JudgeAdmission(std::span<const HeldPages> held, int32_t page_size,
                                        int32_t num_pages);

/// Admission and the free list at 256 slots on the real engine, with a pool of seven pages:
/// requests of 300 positions hold two pages each, so that three run and the fourth waits, and one
/// of a single page, which would fit, waits behind it. At the end one request takes all seven
/// pages. Errors: an engine that cannot be loaded.
Expected<GateReport> RunWidePagesGate(const EngineLoader& loader, EngineOptions options);

struct PoisonGateOptions {
  EngineOptions engine{};
  /// Empty: every kernel that the backend has.
  std::vector<DecodeKernel> kernels{};
  GateWorkload workload{};
};

/// For each decode kernel the same requests twice through one engine whose pool is too small for
/// all of them at once: as they are, and with every freed page filled with NaN at once. The tokens
/// must be the same; that they would be without the NaN, for a kernel whose sums depend on the
/// batch too, the order of admission sees to: both times every step has the same rows. Errors: an
/// engine that cannot be loaded.
Expected<GateReport> RunPoisonGate(const EngineLoader& loader, const PoisonGateOptions& options);

}  // namespace decant
