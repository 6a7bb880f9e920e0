#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "sim/step_time_model.h"

namespace decant {

/// A published figure that the model is fitted to, and what the fitted model says.
struct SeedFitRow {
  std::string what{};
  double published = 0;  ///< Milliseconds.
  double model = 0;
};

struct SeedFit {
  StepTimeParameters device{};
  /// What a step with `flash` takes beyond its layers' attention, seconds: the published steps
  /// differ by less than the published layers do.
  double flash_rest = 0;
  std::vector<SeedFitRow> rows{};
};

/// What one step takes longer on the older PyTorch: 31.3 against 30.9 ms.
inline constexpr double kOlderVersionSeconds = 0.4e-3;

/// Fits the engine that this one is compared with, on its A10, to its published times of steps and
/// of attention by layer, and to nothing else; docs/simulation.md has the equations.
/// `instrumentation`: by how much the published steps are longer than those of a plain run, as a
/// share (0: not at all), which is taken off first. Errors: those of StepTimeModel::Create and of
/// Simulate.
Expected<SeedFit> FitSeedDevice(double instrumentation);

}  // namespace decant
