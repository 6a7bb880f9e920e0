#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "sim/step_time_model.h"

namespace decant {

/// A step of a timed run: what it did, and how long its parts took on the device, in seconds.
struct MeasuredStep {
  StepWork work{};
  double linear = 0;
  double prompt_attention = 0;
  double decode_attention = 0;
  double rest = 0;  ///< The device's time outside these.
};

/// The steps of one `decant bench steps` folder.
struct MeasuredSteps {
  std::string name{};  ///< Engine, kernel and page size, for tables.
  std::string device{};
  std::string model{};
  SimulatedKernel kernel = SimulatedKernel::kRows;
  int32_t page_size = 0;
  /// What timing adds to each part that is timed once a layer, all layers: timed walls less plain
  /// walls, over the parts.
  double timing_seconds = 0;
  std::vector<MeasuredStep> steps{};  ///< Without it.
};

/// Reads steps.csv and the steps.jsonl beside it. The rows do not say how long each history was: a
/// replay of the same workload through the same scheduler does, and must agree with every row in
/// rows, prompt tokens, decode tokens and cached tokens. Errors, naming the file: not found; data
/// loss, for what is missing, malformed or does not agree.
Expected<MeasuredSteps> ReadMeasuredSteps(const std::filesystem::path& steps_csv);

}  // namespace decant
