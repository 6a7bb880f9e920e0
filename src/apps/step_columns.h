#pragma once

#include <string>
#include <vector>

#include "base/csv_writer.h"
#include "base/json.h"
#include "bench/step_summary.h"

namespace decant {

/// The columns that tables of runs have for their steps: decode_steps, decode_p50_ms, decode_p99_ms
/// and decode_floor_ms, and the same for loaded steps.
std::vector<std::string> StepColumns();

/// Their cells; times are empty for a kind without steps.
std::vector<CsvCell> StepCells(const StepSummaries& steps);

/// Adds the objects "pure_decode" and "loaded", each if there are such steps.
void AddSteps(const StepSummaries& steps, JsonObject& object);

}  // namespace decant
