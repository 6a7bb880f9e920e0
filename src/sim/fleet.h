#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sim/simulation.h"
#include "sim/step_time_model.h"

namespace decant {

/// How a router chooses the machine of a request.
enum class RoutingPolicy {
  kRoundRobin,   ///< One after the other, whatever they hold.
  kLeastLoaded,  ///< The machine with the fewest requests that have not ended; the first of equals.
  /// The machine that had the conversation's last request, so that what it has cached can be used;
  /// the least loaded one for a new conversation, and for all while the fleet is out of balance.
  /// The rule of sglang-router's and vllm-router's cache_aware, told by conversations instead of
  /// by prefixes.
  kCacheAware,
};

/// "round-robin", "least-loaded" or "cache-aware". Errors: invalid argument, with the names that
/// there are.
Expected<RoutingPolicy> FindRoutingPolicy(std::string_view name);
std::string_view RoutingPolicyName(RoutingPolicy policy);

/// A fleet is out of balance where its most loaded machine has more than `requests` above the least
/// loaded one, and more than `ratio` times as many.
struct BalanceLimits {
  int32_t requests = 64;
  double ratio = 1.5;
};

/// Machines that are alike, each one engine, behind a router.
struct FleetConfig {
  int32_t machines = 1;
  SimulatedEngineConfig engine{};
  RoutingPolicy policy = RoutingPolicy::kLeastLoaded;
  BalanceLimits balance{};  ///< For kCacheAware.
  int32_t threads = 1;      ///< That simulate, where the policy lets them: kRoundRobin.
};

/// What comes to the router, as views.
struct FleetTraffic {
  std::span<const SimulatedRequest> requests{};  ///< In order of arrival.
  /// By request, numbers from 0 on: what it continues. Empty: each request is a conversation.
  std::span<const int32_t> conversations{};
  double speedup = 1;  ///< Arrivals are divided by it.
};

/// A fleet after all requests have ended.
struct FleetRun {
  std::vector<std::unique_ptr<SimulatedEngine>> machines{};
  std::vector<int32_t> machine_of{};  ///< By request.
  int64_t continued = 0;  ///< Requests that continue a conversation which has begun before.
  int64_t kept = 0;       ///< Of these, on the machine that had the request before.
};

/// Called from any of the simulating threads, one at a time or not, with how many more requests
/// have been handed over.
using FleetProgress = std::function<void(int64_t)>;

/// Runs the fleet in one virtual time. When a request comes, the router knows which of the
/// requests before it have ended. A pure function of its arguments,
/// whatever `threads` is. Errors: invalid argument, for less than one machine or thread, a speed-up
/// that is not above 0, or conversations that are not one for each request; those of
/// SimulatedEngine's Create and Submit; cancelled, after an interrupt.
Expected<FleetRun> RunFleet(const FleetConfig& config, const StepTimeModel& model,
                            const FleetTraffic& traffic, const FleetProgress& progress);

/// Summarize over all machines.
SimulationSummary SummarizeFleet(const FleetRun& run);

}  // namespace decant
