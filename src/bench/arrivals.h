#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/trace_file.h"
#include "bench/workload.h"

namespace decant {

/// Requests and when each is due.
struct Traffic {
  Workload workload{};
  std::vector<double> arrivals{};  ///< Seconds after the first, which is 0; never falling.
  int32_t left_out = 0;            ///< Requests of a trace that were too long.

  /// Requests a second over the time in which they arrive; infinite if that is none.
  double OfferedRate() const;
};

/// When `count` requests of a Poisson process of one a second arrive, in seconds after the first.
/// Arrival i depends on `seed` and i only, so that more requests begin with the fewer.
std::vector<double> PoissonArrivals(int32_t count, uint64_t seed);

/// `workload` arriving at `rate` > 0 requests a second on average: PoissonArrivals, compressed, so
/// that all rates of a seed offer the same pattern.
Traffic PoissonTraffic(Workload workload, uint64_t seed, double rate);

/// The requests of `trace` that have at most `longest` positions, arriving `speedup` > 0 times as
/// fast; the rest are counted. Prompts are random ids of `alphabet`. Invalid argument: none is
/// short enough.
Expected<Traffic> TraceTraffic(std::span<const TraceRequest> trace, int32_t longest, double speedup,
                               std::span<const Token> alphabet);

}  // namespace decant
