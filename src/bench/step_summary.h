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
