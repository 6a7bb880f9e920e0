#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/trace_file.h"
#include "bench/workload.h"
#include "sim/simulation.h"

namespace decant {

/// Requests to plan with, in order of arrival, and how many a second there are: arrivals are
/// scaled by dividing them.
struct PlanTraffic {
  std::vector<SimulatedRequest> requests{};
  std::vector<int32_t> conversations{};  ///< By request.
  int32_t left_out = 0;                  ///< Requests that no machine could hold.
  size_t distinct = 0;  ///< The requests up to here are all there are; the others repeat them.

  /// Requests a second as they stand; infinite if all come at once.
  double Rate() const;
};

/// `count` requests of a Poisson process of one a second, the very ones of PoissonTraffic and
/// MakeWorkload. Requests of more than `most_slots` positions are left out.
PlanTraffic DrawTraffic(const WorkloadOptions& options, int32_t count, uint64_t arrival_seed,
                        int64_t most_slots);

/// `trace`, `repeat` >= 1 times one after the other, the first from time 0 on; a repetition begins
/// after the last arrival by the mean time between arrivals. Likewise.
PlanTraffic RepeatTrace(std::span<const TraceRequest> trace, int32_t repeat, int64_t most_slots);

/// A conversation for each of `count` requests: drawn with `seed` from as many as give each
/// `turns` >= 1 requests on average, spread over the whole of the traffic.
std::vector<int32_t> DrawConversations(size_t count, double turns, uint64_t seed);

}  // namespace decant
