#include "bench/arrivals_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "bench/quantile.h"
#include "bench/run_requests.h"

namespace decant {
namespace {

constexpr double kNano = 1e-9;

/// Delivers requests and writes down what becomes of them. Lives on the stack of RunArrivals, which
/// does not return before every sink has had its last call.
class OpenRun {
 public:
  OpenRun(Engine& engine, const Traffic& traffic, const std::function<void()>& on_end)
      : engine_(engine), traffic_(traffic), on_end_(on_end), records_(traffic.arrivals.size()) {
    for (size_t i = 0; i < records_.size(); ++i) {
      const auto budget = static_cast<size_t>(traffic.workload.items[i].budget);
      records_[i].arrival = traffic.arrivals[i];
      records_[i].tokens.reserve(budget);
      records_[i].token_times.reserve(budget);
    }
  }

  /// Ends when all that was delivered has ended.
  Status Run() {
    ids_.reserve(records_.size());
    start_ = SteadyNanos();
    const Status refused = Deliver();
    if (ids_.size() < records_.size()) Cancel();
    endings_.Wait(ids_.size(), [this] { Cancel(); });
    DECANT_RETURN_IF_ERROR(refused);
    return endings_.Outcome();
  }

  std::vector<RequestRecord> TakeRecords() { return std::move(records_); }

 private:
  /// Submits each request when it is due; stops early after an interrupt or a fault.
  Status Deliver() {
    for (size_t i = 0; i < records_.size(); ++i) {
      const auto due = static_cast<int64_t>(std::llround(records_[i].arrival / kNano));
      if (!endings_.SleepUntil(start_ + due)) return Status();
      records_[i].delivered = SinceStart(SteadyNanos());
      const Expected<RequestId> id = engine_.Submit(BenchRequest(
          traffic_.workload.items[i], [this, i](const auto& update) { Update(i, update); }));
      if (!id.ok()) {
        return id.status().WithContext(fmt::format("request {} of {}", i, traffic_.workload.name));
      }
      ids_.push_back(*id);
    }
    return Status();
  }

  void Cancel() {
    for (const RequestId id : ids_) engine_.Cancel(id);
  }

  void Update(size_t index, const StreamUpdate& update) {
    RequestRecord& record = records_[index];
    if (update.token) {
      record.admitted = SinceStart(*update.admitted_time);
      record.tokens.push_back(*update.token);
      record.token_times.push_back(SinceStart(update.time));
    }
    if (!update.finish) return;
    on_end_();
    endings_.Ended(index, update);
  }

  double SinceStart(int64_t time) const { return static_cast<double>(time - start_) * kNano; }

  Engine& engine_;
  const Traffic& traffic_;
  const std::function<void()>& on_end_;
  int64_t start_ = 0;
  std::vector<RequestId> ids_;
  // A record is filled by the engine's thread once its request is submitted, and read once it
  // ended.
  std::vector<RequestRecord> records_;
  RunEndings endings_;
};

Spread Summarize(std::span<const double> values) {
  return {.median = Median(values), .p99 = Quantile(values, 0.99), .max = Quantile(values, 1)};
}

}  // namespace

Expected<ArrivalsRun> RunArrivals(Engine& engine, const Traffic& traffic,
                                  const std::function<void()>& on_end) {
  DECANT_CHECK(traffic.arrivals.size() == traffic.workload.items.size());
  const EngineStats before = engine.Stats();
  OpenRun open(engine, traffic, on_end);
  DECANT_RETURN_IF_ERROR(open.Run());
  ArrivalsRun run{.requests = open.TakeRecords()};
  const auto generated = static_cast<uint64_t>(traffic.workload.budget_tokens());
  DECANT_ASSIGN_OR_RETURN(run.steps,
                          StepsSince(engine, before.steps(), before.generated_tokens + generated));
  return run;
}

ArrivalsSummary SummarizeArrivals(const Traffic& traffic, const ArrivalsRun& run) {
  DECANT_CHECK(!run.requests.empty() && !run.steps.empty());
  ArrivalsSummary summary{.completed = static_cast<int64_t>(run.requests.size()),
                          .prompt_tokens = traffic.workload.prompt_tokens()};
  std::vector<double> queue;
  std::vector<double> first_token;
  std::vector<double> gaps;
  std::vector<double> latency;
  for (const RequestRecord& request : run.requests) {
    queue.push_back(request.admitted - request.arrival);
    first_token.push_back(request.first_token() - request.arrival);
    latency.push_back(request.last_token() - request.arrival);
    for (size_t i = 1; i < request.token_times.size(); ++i) {
      gaps.push_back(request.token_times[i] - request.token_times[i - 1]);
    }
    summary.generated_tokens += static_cast<int64_t>(request.tokens.size());
    summary.wall = std::max(summary.wall, request.last_token() - run.requests.front().arrival);
    summary.late = std::max(summary.late, request.delivered - request.arrival);
  }
  std::vector<double> pages;
  pages.reserve(run.steps.size());
  for (const StepRecord& step : run.steps) pages.push_back(step.pages_in_use);

  summary.served_rate = static_cast<double>(summary.completed) / summary.wall;
  summary.generated_rate = static_cast<double>(summary.generated_tokens) / summary.wall;
  summary.queue = Summarize(queue);
  summary.first_token = Summarize(first_token);
  if (!gaps.empty()) summary.gap = Summarize(gaps);
  summary.latency = Summarize(latency);
  summary.pages = Summarize(pages);
  return summary;
}

}  // namespace decant
