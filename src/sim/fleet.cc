#include "sim/fleet.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/interrupt.h"
#include "sim/parallel.h"

namespace decant {
namespace {

constexpr std::array kPolicyNames = {
    std::pair(RoutingPolicy::kRoundRobin, std::string_view("round-robin")),
    std::pair(RoutingPolicy::kLeastLoaded, std::string_view("least-loaded")),
    std::pair(RoutingPolicy::kCacheAware, std::string_view("cache-aware"))};
constexpr int64_t kReportEvery = 1024;  // requests
constexpr int32_t kNowhere = -1;

Status Validate(const FleetConfig& config, const FleetTraffic& traffic) {
  if (config.machines < 1 || config.threads < 1) {
    return InvalidArgument("{} machines, {} threads; allowed: at least 1", config.machines,
                           config.threads);
  }
  if (!(traffic.speedup > 0)) {
    return InvalidArgument("a speed-up of {}; allowed: above 0", traffic.speedup);
  }
  if (!traffic.conversations.empty() && traffic.conversations.size() != traffic.requests.size()) {
    return InvalidArgument("{} conversations for {} requests", traffic.conversations.size(),
                           traffic.requests.size());
  }
  return Status();
}

/// Remembers which machine had each conversation's last request, and counts how many stay there.
class Conversations {
 public:
  explicit Conversations(std::span<const int32_t> of) : of_(of) {
    const auto last = std::ranges::max_element(of);
    homes_.resize(of.empty() ? 0 : static_cast<size_t>(*last) + 1, kNowhere);
  }

  int32_t Home(size_t request) const {
    return of_.empty() ? kNowhere : homes_[static_cast<size_t>(of_[request])];
  }

  void Take(size_t request, int32_t machine, FleetRun& run) {
    if (of_.empty()) return;
    int32_t& home = homes_[static_cast<size_t>(of_[request])];
    if (home != kNowhere) ++run.continued;
    if (home == machine) ++run.kept;
    home = machine;
  }

 private:
  std::span<const int32_t> of_;
  std::vector<int32_t> homes_;  ///< By conversation; kNowhere before its first request.
};

/// Tells `progress` now and then, and whether the person interrupted.
class Reporter {
 public:
  explicit Reporter(const FleetProgress& progress) : progress_(progress) {}
  ~Reporter() { Report(); }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  Status Count() {
    if (++count_ < kReportEvery) return Status();
    Report();
    return InterruptRequested() ? Status(StatusCode::kCancelled, "interrupted") : Status();
  }

 private:
  void Report() {
    if (progress_) progress_(count_);
    count_ = 0;
  }

  const FleetProgress& progress_;
  int64_t count_ = 0;
};

SimulatedRequest Due(const FleetTraffic& traffic, size_t request) {
  SimulatedRequest due = traffic.requests[request];
  due.arrival /= traffic.speedup;
  return due;
}

/// The machines know nothing of each other, so each runs through its own requests.
Status RunApart(const FleetConfig& config, const FleetTraffic& traffic,
                const FleetProgress& progress, FleetRun& run) {
  const auto count = run.machines.size();
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    run.machine_of[i] = static_cast<int32_t>(i % count);
  }
  std::vector<Status> statuses(count);
  const auto run_one = [&](size_t machine) -> Status {
    SimulatedEngine& engine = *run.machines[machine];
    Reporter reporter(progress);
    for (size_t i = machine; i < traffic.requests.size(); i += count) {
      const SimulatedRequest request = Due(traffic, i);
      engine.RunUntil(request.arrival);
      DECANT_RETURN_IF_ERROR(engine.Submit(request).status());
      DECANT_RETURN_IF_ERROR(reporter.Count());
    }
    engine.RunToEnd();
    return Status();
  };
  ForEachInParallel(config.machines, config.threads, [&](int32_t machine) {
    const auto index = static_cast<size_t>(machine);
    statuses[index] = run_one(index);
  });
  for (const Status& status : statuses) DECANT_RETURN_IF_ERROR(status);
  return Status();
}

/// The router sees all machines as they stand when a request comes.
class Router {
 public:
  Router(const FleetConfig& config, const FleetTraffic& traffic, FleetRun& run)
      : config_(config),
        traffic_(traffic),
        run_(run),
        conversations_(traffic.conversations),
        loads_(run.machines.size(), 0),
        awaited_(run.machines.size(), false) {}

  Status Run(const FleetProgress& progress) {
    Reporter reporter(progress);
    for (size_t i = 0; i < traffic_.requests.size(); ++i) {
      const SimulatedRequest request = Due(traffic_, i);
      Advance(request.arrival);
      const int32_t machine = Choose(i);
      conversations_.Take(i, machine, run_);
      run_.machine_of[i] = machine;
      SimulatedEngine& engine = *run_.machines[static_cast<size_t>(machine)];
      DECANT_RETURN_IF_ERROR(engine.Submit(request).status());
      ++loads_[static_cast<size_t>(machine)];
      Await(machine);
      DECANT_RETURN_IF_ERROR(reporter.Count());
    }
    for (const auto& engine : run_.machines) engine->RunToEnd();
    return Status();
  }

 private:
  /// Lets the machines go on to `time`, and sees which requests have ended before.
  void Advance(double time) {
    while (!busy_.empty() && busy_.top().first < time) {
      const int32_t machine = busy_.top().second;
      busy_.pop();
      awaited_[static_cast<size_t>(machine)] = false;
      SimulatedEngine& engine = *run_.machines[static_cast<size_t>(machine)];
      int32_t before = Load(engine);
      while (engine.now() < time && !engine.idle()) {
        before = Load(engine);
        RunATurn(engine);
      }
      // What the last turn ended, it ended at its end.
      const bool ahead = engine.now() >= time;
      loads_[static_cast<size_t>(machine)] = ahead ? before : Load(engine);
      if (ahead || !engine.idle()) Await(machine);
    }
  }

  void Await(int32_t machine) {
    const auto index = static_cast<size_t>(machine);
    if (!awaited_[index]) busy_.emplace(run_.machines[index]->now(), machine);
    awaited_[index] = true;
  }

  static int32_t Load(const SimulatedEngine& engine) { return engine.waiting() + engine.running(); }

  static void RunATurn(SimulatedEngine& engine) {
    engine.RunUntil(std::nextafter(engine.now(), std::numeric_limits<double>::infinity()));
  }

  int32_t Choose(size_t request) const {
    const auto [least, most] = std::ranges::minmax_element(loads_);
    const auto least_loaded = static_cast<int32_t>(least - loads_.begin());
    if (config_.policy == RoutingPolicy::kLeastLoaded) return least_loaded;
    const int32_t home = conversations_.Home(request);
    const bool out_of_balance =
        *most - *least > config_.balance.requests && *most > config_.balance.ratio * *least;
    return home == kNowhere || out_of_balance ? least_loaded : home;
  }

  const FleetConfig& config_;
  const FleetTraffic& traffic_;
  FleetRun& run_;
  Conversations conversations_;
  std::vector<int32_t> loads_;  ///< Requests that have not ended, by machine.
  /// Machines that work, or whose last step ends later, by where their loops stand, the earliest
  /// first.
  using Turn = std::pair<double, int32_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> busy_;
  std::vector<bool> awaited_;  ///< Whether it is among them, by machine.
};

}  // namespace

Expected<RoutingPolicy> FindRoutingPolicy(std::string_view name) {
  for (const auto& [policy, policy_name] : kPolicyNames) {
    if (name == policy_name) return policy;
  }
  return InvalidArgument("the policy is '{}'; allowed: round-robin, least-loaded, cache-aware",
                         name);
}

std::string_view RoutingPolicyName(RoutingPolicy policy) {
  return kPolicyNames[static_cast<size_t>(policy)].second;
}

Expected<FleetRun> RunFleet(const FleetConfig& config, const StepTimeModel& model,
                            const FleetTraffic& traffic, const FleetProgress& progress) {
  DECANT_RETURN_IF_ERROR(Validate(config, traffic));
  FleetRun run;
  for (int32_t i = 0; i < config.machines; ++i) {
    DECANT_ASSIGN_OR_RETURN(auto engine, SimulatedEngine::Create(config.engine, model));
    run.machines.push_back(std::move(engine));
  }
  run.machine_of.resize(traffic.requests.size());
  if (config.policy == RoutingPolicy::kRoundRobin) {
    DECANT_RETURN_IF_ERROR(RunApart(config, traffic, progress, run));
    Conversations conversations(traffic.conversations);
    for (size_t i = 0; i < run.machine_of.size(); ++i) {
      conversations.Take(i, run.machine_of[i], run);
    }
  } else {
    DECANT_RETURN_IF_ERROR(Router(config, traffic, run).Run(progress));
  }
  return run;
}

SimulationSummary SummarizeFleet(const FleetRun& run) {
  std::vector<const SimulatedEngine*> engines;
  engines.reserve(run.machines.size());
  for (const auto& engine : run.machines) engines.push_back(engine.get());
  return Summarize(engines);
}

}  // namespace decant
