#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "sim/measured_steps.h"
#include "sim/step_time_model.h"

namespace decant {

/// How long steps of decode tokens took where nothing but the host can have held them up.
struct HostPoint {
  int32_t rows = 0;
  double seconds = 0;
};

/// How far the fitted model is from what was measured.
struct FitResidual {
  std::string what{};
  int64_t steps = 0;
  double measured = 0;      ///< Median, seconds.
  double predicted = 0;     ///< Median, seconds.
  double median_error = 0;  ///< Of |predicted / measured - 1|.
  double p90_error = 0;
};

struct StepTimeFit {
  StepTimeParameters parameters{};
  std::vector<FitResidual> residuals{};
};

struct StepTimeFitOptions {
  std::span<const MeasuredSteps> steps{};  ///< At least one, all of one device and model.
  /// Runs of which only the attention of pure decode steps is taken: a kernel by itself.
  std::span<const MeasuredSteps> attention_only{};
  std::span<const HostPoint> host{};
  int32_t multiprocessors = 0;
  int32_t kv_heads = 0;
  int64_t pool_slots = 0;
};

/// Fits each part of the model to the same part of the measured steps, by least squares with
/// weights of at least 0. Errors: invalid argument, for runs of several devices or models, or none.
Expected<StepTimeFit> FitStepTimes(const StepTimeFitOptions& options);

}  // namespace decant
