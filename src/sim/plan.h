#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "sim/fleet.h"
#include "sim/plan_traffic.h"

namespace decant {

/// What a service promises; at least one of the two is set. Seconds.
struct PlanTarget {
  std::optional<double> first_token_p99{};  ///< Arrival to first token.
  std::optional<double> gap_p99{};          ///< From a token to the next.

  bool HeldBy(const SimulationSummary& summary) const;

  /// "first token", "token gap", "both", or "" where the target is held.
  std::string Missed(const SimulationSummary& summary) const;
};

/// One simulated fleet.
struct PlanPoint {
  int32_t machines = 0;
  double speedup = 0;  ///< Of the traffic as it stands.
  double rate = 0;     ///< Requests a second offered.
  SimulationSummary summary{};
  double kept_share = 0;  ///< Of the requests that continue a conversation: to the same machine.
};

/// The answer to one question.
struct PlanAnswer {
  std::optional<PlanPoint> held{};    ///< The highest rate, or the least machines, found to hold.
  std::optional<PlanPoint> beyond{};  ///< The nearest found not to hold.
  SimulationSummary alone{};          ///< Each request by itself on one machine.
  int32_t runs = 0;                   ///< Fleets that were simulated.
};

/// Where a search stands: the fleet that is simulated, and the requests handed over.
struct PlanProgress {
  int32_t machines = 0;
  double rate = 0;
  int32_t run = 0;   ///< From 1 on.
  double share = 0;  ///< Of the requests, handed over.
};

struct PlanOptions {
  PlanTarget target{};
  double precision = 0.01;  ///< How near the answer is, as a share.
  int32_t most_machines = 1 << 14;
  std::function<void(const PlanProgress&)> progress{};  ///< From any simulating thread.
};

/// The highest rate that the fleet holds the target at. None where even requests alone miss the
/// target. Errors: invalid argument, for traffic that comes all at once; RunFleet's.
Expected<PlanAnswer> PlanHighestRate(const FleetConfig& fleet, const StepTimeModel& model,
                                     const PlanTraffic& traffic, const PlanOptions& options);

/// The least number of machines that holds the target under `traffic`, `speedup` times as fast;
/// fleet.machines does not matter. Likewise, and none where most_machines do not hold it.
Expected<PlanAnswer> PlanLeastMachines(const FleetConfig& fleet, const StepTimeModel& model,
                                       const PlanTraffic& traffic, double speedup,
                                       const PlanOptions& options);

}  // namespace decant
