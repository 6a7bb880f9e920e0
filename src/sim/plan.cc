#include "sim/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "sim/bisection.h"

namespace decant {
namespace {

constexpr size_t kMostAlone = 20000;  // requests
constexpr size_t kBatchesToStart = 20;

/// The first requests one after the other, each on an idle machine: no fleet does better.
Expected<SimulationSummary> RunAlone(const SimulatedEngineConfig& config,
                                     const StepTimeModel& model, const PlanTraffic& traffic) {
  DECANT_ASSIGN_OR_RETURN(const auto engine, SimulatedEngine::Create(config, model));
  const size_t count = std::min(traffic.distinct, kMostAlone);
  for (size_t i = 0; i < count; ++i) {
    if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
    SimulatedRequest request = traffic.requests[i];
    request.arrival = engine->now();
    DECANT_RETURN_IF_ERROR(engine->Submit(request).status());
    engine->RunToEnd();
  }
  const SimulatedEngine* const one = engine.get();
  return Summarize({&one, 1});
}

/// Requests a second of one machine that always has more to do: where a search starts.
Expected<double> Capacity(const SimulatedEngineConfig& config, const StepTimeModel& model,
                          const PlanTraffic& traffic) {
  const size_t count =
      std::min(traffic.requests.size(), kBatchesToStart * static_cast<size_t>(config.max_batch));
  std::vector<SimulatedRequest> requests(traffic.requests.begin(),
                                         traffic.requests.begin() + static_cast<int64_t>(count));
  for (SimulatedRequest& request : requests) request.arrival = 0;
  DECANT_ASSIGN_OR_RETURN(const auto engine, Simulate(config, model, requests));
  return static_cast<double>(count) / engine->now();
}

/// Runs the fleets of one search and keeps the answer's.
class Search {
 public:
  Search(FleetConfig fleet, const StepTimeModel& model, const PlanTraffic& traffic,
         const PlanOptions& options)
      : fleet_(fleet), model_(model), traffic_(traffic), options_(options) {}

  /// Whether the target is within reach, and how much a machine does.
  Expected<bool> Begin() {
    if (!std::isfinite(traffic_.Rate())) {
      return InvalidArgument(
          "{} requests that all come at once; a rate needs two at different times",
          traffic_.requests.size());
    }
    DECANT_ASSIGN_OR_RETURN(answer_.alone, RunAlone(fleet_.engine, model_, traffic_));
    DECANT_ASSIGN_OR_RETURN(capacity_, Capacity(fleet_.engine, model_, traffic_));
    return options_.target.HeldBy(answer_.alone);
  }

  /// Requests a second of one machine.
  double capacity() const { return capacity_; }

  Expected<bool> Holds(int32_t machines, double speedup) {
    fleet_.machines = machines;
    PlanPoint point{.machines = machines, .speedup = speedup, .rate = traffic_.Rate() * speedup};
    ++answer_.runs;
    std::atomic<int64_t> handed_over = 0;
    const auto report = [&](int64_t count) {
      const auto done = static_cast<double>(handed_over += count);
      options_.progress({.machines = machines,
                         .rate = point.rate,
                         .run = answer_.runs,
                         .share = done / static_cast<double>(traffic_.requests.size())});
    };
    DECANT_ASSIGN_OR_RETURN(const FleetRun run,
                            RunFleet(fleet_, model_,
                                     {.requests = traffic_.requests,
                                      .conversations = traffic_.conversations,
                                      .speedup = speedup},
                                     options_.progress ? FleetProgress(report) : FleetProgress()));
    point.summary = SummarizeFleet(run);
    if (run.continued > 0) {
      point.kept_share = static_cast<double>(run.kept) / static_cast<double>(run.continued);
    }
    const bool held = options_.target.HeldBy(point.summary);
    // A search narrows its range, so that the last of either kind is the nearest.
    (held ? answer_.held : answer_.beyond) = point;
    return held;
  }

  PlanAnswer Take() { return answer_; }

 private:
  FleetConfig fleet_;
  const StepTimeModel& model_;
  const PlanTraffic& traffic_;
  const PlanOptions& options_;
  double capacity_ = 0;
  PlanAnswer answer_;
};

}  // namespace

bool PlanTarget::HeldBy(const SimulationSummary& summary) const { return Missed(summary).empty(); }

std::string PlanTarget::Missed(const SimulationSummary& summary) const {
  const bool first_token = first_token_p99 && summary.first_token_p99 > *first_token_p99;
  const bool gap = gap_p99 && summary.gap_p99 > *gap_p99;
  if (first_token && gap) return "both";
  if (first_token) return "first token";
  return gap ? "token gap" : "";
}

Expected<PlanAnswer> PlanHighestRate(const FleetConfig& fleet, const StepTimeModel& model,
                                     const PlanTraffic& traffic, const PlanOptions& options) {
  Search search(fleet, model, traffic, options);
  DECANT_ASSIGN_OR_RETURN(const bool within_reach, search.Begin());
  if (!within_reach) return search.Take();
  const double as_it_stands = traffic.Rate();
  const double start = search.capacity() * fleet.machines / as_it_stands;
  DECANT_RETURN_IF_ERROR(
      FindHighest({.start = start,
                   .least = start * 1e-6,
                   .most = start * 1e3,
                   .precision = options.precision},
                  [&](double speedup) { return search.Holds(fleet.machines, speedup); })
          .status());
  return search.Take();
}

Expected<PlanAnswer> PlanLeastMachines(const FleetConfig& fleet, const StepTimeModel& model,
                                       const PlanTraffic& traffic, double speedup,
                                       const PlanOptions& options) {
  Search search(fleet, model, traffic, options);
  DECANT_ASSIGN_OR_RETURN(const bool within_reach, search.Begin());
  if (!within_reach) return search.Take();
  const double needed = std::ceil(traffic.Rate() * speedup / search.capacity());
  const double start = std::clamp<double>(needed, 1, options.most_machines);
  DECANT_RETURN_IF_ERROR(
      FindLeast({.start = static_cast<int32_t>(start),
                 .most = options.most_machines,
                 .precision = options.precision},
                [&](int32_t machines) { return search.Holds(machines, speedup); })
          .status());
  return search.Take();
}

}  // namespace decant
