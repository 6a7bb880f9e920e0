#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/arrivals.h"
#include "engine/engine.h"

namespace decant {

/// What happened to one request, in seconds after the run's first arrival.
struct RequestRecord {
  double arrival = 0;                 ///< When it was due; waits and latencies count from here.
  double delivered = 0;               ///< When the engine got it.
  double admitted = 0;                ///< When its first step was planned.
  std::vector<Token> tokens{};        ///< All that it generated.
  std::vector<double> token_times{};  ///< [tokens] when each came.

  double first_token() const { return token_times.front(); }
  double last_token() const { return token_times.back(); }
};

/// An open run: requests came one at a time while the engine worked, and all ended by their budget.
struct ArrivalsRun {
  std::vector<RequestRecord> requests{};
  std::vector<StepRecord> steps{};
};

/// Delivers each request of `traffic` to an idle engine when it is due, from the calling thread,
/// and waits for the last to end. Every budget is used to its end. `on_end` is called for each
/// request that ends, on the engine's thread. Errors, with nothing left running: what Submit
/// refuses; cancelled, after an interrupt; internal when a request ended otherwise than by its
/// budget, or when the engine's step history is too short for the run.
Expected<ArrivalsRun> RunArrivals(Engine& engine, const Traffic& traffic,
                                  const std::function<void()>& on_end);

/// Median, 99th percentile and largest of some values.
struct Spread {
  double median = 0;
  double p99 = 0;
  double max = 0;
};

/// An open run in figures; seconds.
struct ArrivalsSummary {
  int64_t completed = 0;  ///< requests
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  double wall = 0;              ///< From the first arrival to the LAST completion.
  double served_rate = 0;       ///< Completed requests a second of `wall`.
  double generated_rate = 0;    ///< Generated tokens a second of `wall`.
  Spread queue{};               ///< From arrival to admission.
  Spread first_token{};         ///< From arrival to the first token.
  std::optional<Spread> gap{};  ///< Between a request's consecutive tokens; absent: all had one.
  Spread latency{};             ///< From arrival to the last token.
  Spread pages{};               ///< In use, over the steps.
  double late = 0;              ///< The largest from arrival to delivery.
};

/// `run` has a request and a step at least.
ArrivalsSummary SummarizeArrivals(const Traffic& traffic, const ArrivalsRun& run);

}  // namespace decant
