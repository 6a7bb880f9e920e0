#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "bench/closed_run.h"
#include "bench/machine_probe.h"
#include "bench/timed_ops.h"
#include "bench/workload.h"
#include "engine/engine.h"

namespace decant {

/// A step of a timed run: what the engine saw of it, and its parts on the device.
struct TracedStep {
  StepRecord record{};
  StepTimes times{};
};

/// A closed run whose steps were timed part by part.
struct TracedRun {
  double wall_seconds = 0;
  std::vector<TracedStep> steps{};
  std::vector<RequestTimes> requests{};
};

/// RunClosed with timing; `ops` is what the engine computes with. Errors: those of RunClosed, after
/// which `ops` times nothing more that can be used.
Expected<TracedRun> RunTraced(Engine& engine, TimedOps& ops, const Workload& workload,
                              const std::function<void()>& on_token);

/// Steps of one kind, in seconds: medians over the steps, part by part.
struct KindSummary {
  int64_t steps = 0;
  std::array<double, kStepParts> parts{};   ///< By StepPart; 0 for one that most steps lack.
  std::array<double, kStepParts> shares{};  ///< Of the device's time for all these steps together.
  double parts_sum = 0;                     ///< Median of each step's sum.
  double device = 0;
  double duration = 0;
  double floor = 0;        ///< Of MachineRates::FloorSeconds.
  double times_floor = 0;  ///< Median of duration / floor.
  double plan = 0;
  double launch = 0;
  double wait = 0;
  double deliver = 0;
  /// Where both attention kernels ran at once: the decode tokens' share of the pairs of a query and
  /// a key, all such steps together.
  double decode_share = 0;
};

/// Both kinds of steps; a kind without steps is absent.
struct TraceSummary {
  std::optional<KindSummary> pure_decode{};
  std::optional<KindSummary> loaded{};
};

TraceSummary SummarizeTrace(std::span<const TracedStep> steps, const MachineRates& rates);

/// Times in milliseconds: {"steps": 120, "median_ms": 24.1, "parts_ms": {"upload": 0.01, ...},
/// ...}.
JsonObject ToJson(const KindSummary& summary);

/// A table for people: each part's median and share in both kinds of steps, then sum, step, floor,
/// ratio and the host's part.
std::string PartTable(const TraceSummary& summary);

/// The wait of requests that generate already from one token to the next, in seconds.
struct GapSummary {
  int64_t gaps = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
};

/// Of all requests together. Without gaps (one token a request) all is 0.
GapSummary SummarizeGaps(std::span<const RequestTimes> requests);

}  // namespace decant
