#include "bench/step_summary.h"

#include <fmt/format.h>

#include "bench/quantile.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;
constexpr double kMicro = 1e6;

std::optional<StepSummary> Summarize(std::span<const StepRecord> steps, bool pure_decode,
                                     const MachineRates& rates) {
  std::vector<double> durations;
  std::vector<double> floors;
  std::vector<double> ratios;
  int64_t memory_bound = 0;
  int64_t tokens = 0;
  double seconds = 0;
  for (const StepRecord& step : steps) {
    if (step.pure_decode() != pure_decode) continue;
    const double floor = rates.FloorSeconds(step.bytes, step.operations);
    durations.push_back(step.duration);
    floors.push_back(floor);
    ratios.push_back(step.duration / floor);
    memory_bound += floor > step.operations / rates.operations_per_second ? 1 : 0;
    tokens += step.prompt_tokens + step.decode_tokens;
    seconds += step.duration;
  }
  if (durations.empty()) return std::nullopt;
  const auto count = static_cast<int64_t>(durations.size());
  return StepSummary{.steps = count,
                     .median = Median(durations),
                     .p99 = Quantile(durations, 0.99),
                     .floor = Median(floors),
                     .times_floor = Median(ratios),
                     .memory_bound = 2 * memory_bound > count,
                     .tokens_per_second = static_cast<double>(tokens) / seconds};
}

std::optional<HostSummary> SummarizeHost(std::span<const StepRecord> steps, bool pure_decode) {
  std::vector<double> all;
  std::vector<double> plans;
  std::vector<double> launches;
  std::vector<double> deliveries;
  for (const StepRecord& step : steps) {
    if (step.pure_decode() != pure_decode) continue;
    all.push_back(step.host());
    plans.push_back(step.plan);
    launches.push_back(step.launch);
    deliveries.push_back(step.deliver);
  }
  if (all.empty()) return std::nullopt;
  return HostSummary{.steps = std::ssize(all),
                     .median = Median(all),
                     .p99 = Quantile(all, 0.99),
                     .plan = Median(plans),
                     .launch = Median(launches),
                     .deliver = Median(deliveries)};
}

JsonObject ToJson(const HostSummary& summary) {
  return JsonObject()
      .Add("steps", summary.steps)
      .Add("median_us", summary.median * kMicro)
      .Add("p99_us", summary.p99 * kMicro)
      .Add("plan_us", summary.plan * kMicro)
      .Add("launch_us", summary.launch * kMicro)
      .Add("deliver_us", summary.deliver * kMicro);
}

}  // namespace

StepSummaries SummarizeSteps(std::span<const StepRecord> steps, const MachineRates& rates) {
  return {.pure_decode = Summarize(steps, true, rates), .loaded = Summarize(steps, false, rates)};
}

IdleSummary SummarizeIdle(std::span<const StepRecord> steps) {
  std::vector<double> gaps;
  double idle = 0;
  double busy = 0;
  for (const StepRecord& step : steps) {
    busy += step.device;
    if (!step.follows) continue;
    idle += step.idle;
    gaps.push_back(step.idle);
  }
  if (gaps.empty()) return {};
  return {.gaps = std::ssize(gaps), .median = Median(gaps), .share = idle / (idle + busy)};
}

JsonObject ToJson(const IdleSummary& summary) {
  return JsonObject()
      .Add("gaps", summary.gaps)
      .Add("median_us", summary.median * kMicro)
      .Add("share", summary.share);
}

std::string IdleText(const IdleSummary& summary) {
  return fmt::format("device idle between steps: {:.2f}% of its time, median {:.1f} us ({} gaps)\n",
                     summary.share * 100, summary.median * kMicro, summary.gaps);
}

HostSummaries SummarizeHost(std::span<const StepRecord> steps) {
  return {.pure_decode = SummarizeHost(steps, true), .loaded = SummarizeHost(steps, false)};
}

JsonObject ToJson(const HostSummaries& summaries) {
  JsonObject object;
  if (summaries.pure_decode) object.Add("pure_decode", ToJson(*summaries.pure_decode));
  if (summaries.loaded) object.Add("loaded", ToJson(*summaries.loaded));
  return object;
}

std::string HostText(const HostSummaries& summaries) {
  std::vector<std::string> kinds;
  const auto add = [&](const char* kind, const std::optional<HostSummary>& summary) {
    if (!summary) return;
    kinds.push_back(
        fmt::format("{} {:.0f} us (p99 {:.0f}; plan {:.0f}, launch {:.0f}, deliver {:.0f})", kind,
                    summary->median * kMicro, summary->p99 * kMicro, summary->plan * kMicro,
                    summary->launch * kMicro, summary->deliver * kMicro));
  };
  add("pure decode", summaries.pure_decode);
  add("loaded", summaries.loaded);
  return fmt::format("host's part of a step: {}\n", fmt::join(kinds, ", "));
}

JsonObject ToJson(const StepSummary& summary) {
  return JsonObject()
      .Add("steps", summary.steps)
      .Add("median_ms", summary.median * kMilli)
      .Add("p99_ms", summary.p99 * kMilli)
      .Add("floor_ms", summary.floor * kMilli)
      .Add("times_floor", summary.times_floor)
      .Add("bound_by", summary.memory_bound ? "bytes" : "operations")
      .Add("tokens_per_s", summary.tokens_per_second);
}

std::string StepTable(std::span<const LabelledSteps> runs) {
  TextTable table({"steps", "kind", "count", "median ms", "p99 ms", "floor ms", "x floor",
                   "floor is", "tokens/s"});
  const auto add = [&](const std::string& label, const char* kind,
                       const std::optional<StepSummary>& summary) {
    if (!summary) return;
    table.AddRow({label, kind, fmt::format("{}", summary->steps),
                  fmt::format("{:.2f}", summary->median * kMilli),
                  fmt::format("{:.2f}", summary->p99 * kMilli),
                  fmt::format("{:.2f}", summary->floor * kMilli),
                  fmt::format("{:.2f}", summary->times_floor),
                  summary->memory_bound ? "bytes" : "operations",
                  fmt::format("{:.0f}", summary->tokens_per_second)});
  };
  for (const LabelledSteps& run : runs) {
    add(run.label, "pure decode", run.steps.pure_decode);
    add(run.label, "loaded", run.steps.loaded);
  }
  return table.ToString();
}

}  // namespace decant
