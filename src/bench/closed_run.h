#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "bench/workload.h"
#include "engine/engine.h"

namespace decant {

/// What one request got, and when, in seconds from the moment the batch was handed over.
struct RequestTimes {
  double first_token = 0;
  double last_token = 0;
  std::vector<double> gaps{};   ///< From each token to the next.
  std::vector<Token> tokens{};  ///< What was generated.
};

/// A closed run: the engine got the whole batch at time zero and ran it to its end.
struct ClosedRun {
  double wall_seconds = 0;  ///< Until the LAST request ended.
  std::vector<RequestTimes> requests{};
  std::vector<StepRecord> steps{};
};

/// Hands all of `workload` to an idle engine and waits for the last request. Every budget is used
/// to its end. `on_token` is called for each token, on the engine's thread. Errors: what Submit
/// refuses; cancelled, after an interrupt, with nothing left running; internal when a request ended
/// otherwise than by its budget, or when the engine's step history is too short for the run.
Expected<ClosedRun> RunClosed(Engine& engine, const Workload& workload,
                              const std::function<void()>& on_token);

}  // namespace decant
