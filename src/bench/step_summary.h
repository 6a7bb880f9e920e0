#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/machine_probe.h"
#include "engine/statistics.h"

namespace decant {

/// Steps of one kind, in seconds, beside the least time they could have taken here.
struct StepSummary {
  int64_t steps = 0;
  double median = 0;
  double p99 = 0;
  double floor = 0;              ///< Median over the steps of MachineRates::FloorSeconds.
  double times_floor = 0;        ///< Median over the steps of duration / floor.
  bool memory_bound = false;     ///< Whether bytes set the floor of most steps, not operations.
  double tokens_per_second = 0;  ///< Of all steps together, prompt and decode tokens.
};

/// Both kinds of steps; a kind without steps is absent.
struct StepSummaries {
  std::optional<StepSummary> pure_decode{};
  std::optional<StepSummary> loaded{};
};

StepSummaries SummarizeSteps(std::span<const StepRecord> steps, const MachineRates& rates);

/// How long a device did nothing although there was work, over steps of both kinds.
struct IdleSummary {
  int64_t gaps = 0;   ///< Steps that were launched while the one before was in flight.
  double median = 0;  ///< Of a gap, seconds.
  double share = 0;   ///< Of all gaps, in the time of all gaps and all steps.
};

/// By the device's own stamps: StepRecord::idle and ::device. The first step has no gap.
IdleSummary SummarizeIdle(std::span<const StepRecord> steps);

/// {"gaps": 812, "median_us": 12.5, "share": 0.011}
JsonObject ToJson(const IdleSummary& summary);

/// "device idle between steps: 1.10% of its time, median 12.5 us (812 gaps)"
std::string IdleText(const IdleSummary& summary);

/// What the engine's loop does itself for a step of one kind: to plan it, launch it and deliver its
/// tokens, without the wait for the device. Seconds.
struct HostSummary {
  int64_t steps = 0;
  double median = 0;  ///< Of all of it.
  double p99 = 0;
  double plan = 0;  ///< Medians of its parts.
  double launch = 0;
  double deliver = 0;
};

/// A kind without steps is absent.
struct HostSummaries {
  std::optional<HostSummary> pure_decode{};
  std::optional<HostSummary> loaded{};
};

HostSummaries SummarizeHost(std::span<const StepRecord> steps);

/// {"pure_decode": {"steps": 957, "median_us": 41.2, ...}, "loaded": ...}
JsonObject ToJson(const HostSummaries& summaries);

/// "host's part of a step: pure decode 41 us (p99 80; plan 2, launch 33, deliver 6), loaded ..."
std::string HostText(const HostSummaries& summaries);

/// Times in milliseconds: {"steps": 120, "median_ms": 24.1, ...}.
JsonObject ToJson(const StepSummary& summary);

/// A run's two summaries, under the words that tell the run from the others ("32 rows, split").
struct LabelledSteps {
  std::string label{};
  StepSummaries steps{};
};

/// A table for people: for each run its pure decode and loaded steps, median and p99 beside the
/// floor.
std::string StepTable(std::span<const LabelledSteps> runs);

}  // namespace decant
