#include "bench/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/quantile.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;

/// The median over `steps` of value(step).
template <typename Value>
double MedianOf(std::span<const TracedStep* const> steps, Value&& value) {
  std::vector<double> values;
  values.reserve(steps.size());
  for (const TracedStep* step : steps) values.push_back(value(*step));
  return Median(values);
}

/// The decode tokens' share of the pairs in steps that ran both attention kernels at once, each
/// step weighed by the time of that attention.
double DecodeShare(std::span<const TracedStep* const> steps) {
  double both = 0;
  double decode = 0;
  for (const TracedStep* step : steps) {
    const double seconds = step->times.Parts()[static_cast<size_t>(StepPart::kAttention)];
    both += seconds;
    decode += seconds * step->times.decode_share;
  }
  return both > 0 ? decode / both : 0;
}

std::optional<KindSummary> SummarizeKind(std::span<const TracedStep> all, bool pure_decode,
                                         const MachineRates& rates) {
  std::vector<const TracedStep*> steps;
  double device = 0;
  for (const TracedStep& step : all) {
    if (step.record.pure_decode() != pure_decode) continue;
    steps.push_back(&step);
    device += step.record.device;
  }
  if (steps.empty()) return std::nullopt;
  const auto floor = [&](const TracedStep& step) {
    return rates.FloorSeconds(step.record.bytes, step.record.operations);
  };
  const auto median = [&](double StepRecord::*field) {
    return MedianOf(steps, [&](const TracedStep& step) { return step.record.*field; });
  };
  KindSummary summary{
      .steps = static_cast<int64_t>(steps.size()),
      .parts_sum = MedianOf(steps, [](const auto& s) { return s.times.total(); }),
      .device = median(&StepRecord::device),
      .duration = median(&StepRecord::duration),
      .floor = MedianOf(steps, floor),
      .times_floor = MedianOf(steps, [&](const auto& s) { return s.record.duration / floor(s); }),
      .plan = median(&StepRecord::plan),
      .launch = median(&StepRecord::launch),
      .wait = median(&StepRecord::wait),
      .deliver = median(&StepRecord::deliver),
      .decode_share = DecodeShare(steps)};
  for (size_t part = 0; part < kStepParts; ++part) {
    double seconds = 0;
    summary.parts[part] = MedianOf(steps, [&](const TracedStep& step) {
      const double own = step.times.Parts()[part];
      seconds += own;
      return own;
    });
    summary.shares[part] = seconds / device;
  }
  return summary;
}

/// A row of PartTable; `cells(kind)` are a kind's two cells.
template <typename Cells>
void AddRow(TextTable& table, const std::string& name, const TraceSummary& summary, Cells&& cells) {
  std::vector<std::string> row = {name};
  for (const auto& kind : {summary.pure_decode, summary.loaded}) {
    if (!kind) continue;
    const std::pair<std::string, std::string> pair = cells(*kind);
    row.push_back(pair.first);
    row.push_back(pair.second);
  }
  table.AddRow(std::move(row));
}

std::string Milliseconds(double seconds) { return fmt::format("{:.3f}", seconds * kMilli); }

std::string Percent(double share) { return fmt::format("{:.1f}%", share * 100); }

}  // namespace

Expected<TracedRun> RunTraced(Engine& engine, TimedOps& ops, const Workload& workload,
                              const std::function<void()>& on_token) {
  ops.Start();
  Expected<ClosedRun> result = RunClosed(engine, workload, on_token);
  if (!result.ok()) return result.status();
  std::vector<StepTimes> times = ops.Stop();
  if (times.size() != result->steps.size()) {
    return Error(StatusCode::kInternal, "{} of the run's {} steps were timed", times.size(),
                 result->steps.size());
  }
  TracedRun run{.wall_seconds = result->wall_seconds, .requests = std::move(result->requests)};
  for (size_t i = 0; i < times.size(); ++i) {
    run.steps.push_back({.record = result->steps[i], .times = std::move(times[i])});
  }
  return run;
}

TraceSummary SummarizeTrace(std::span<const TracedStep> steps, const MachineRates& rates) {
  return {.pure_decode = SummarizeKind(steps, true, rates),
          .loaded = SummarizeKind(steps, false, rates)};
}

JsonObject ToJson(const KindSummary& summary) {
  JsonObject parts;
  JsonObject shares;
  for (size_t part = 0; part < kStepParts; ++part) {
    const std::string_view name = StepPartName(static_cast<StepPart>(part));
    parts.Add(name, summary.parts[part] * kMilli);
    shares.Add(name, summary.shares[part]);
  }
  return JsonObject()
      .Add("steps", summary.steps)
      .Add("median_ms", summary.duration * kMilli)
      .Add("device_ms", summary.device * kMilli)
      .Add("floor_ms", summary.floor * kMilli)
      .Add("times_floor", summary.times_floor)
      .Add("parts_sum_ms", summary.parts_sum * kMilli)
      .Add("parts_ms", parts)
      .Add("shares", shares)
      .Add("decode_share_of_pairs", summary.decode_share)
      .Add("plan_ms", summary.plan * kMilli)
      .Add("launch_ms", summary.launch * kMilli)
      .Add("wait_ms", summary.wait * kMilli)
      .Add("deliver_ms", summary.deliver * kMilli);
}

std::string PartTable(const TraceSummary& summary) {
  std::vector<std::string> columns = {"part"};
  if (summary.pure_decode) columns.insert(columns.end(), {"pure decode ms", "share"});
  if (summary.loaded) columns.insert(columns.end(), {"loaded ms", "share"});
  TextTable table(columns);
  const auto share = [](const std::optional<KindSummary>& kind, size_t part) {
    return kind ? kind->shares[part] : 0;
  };
  for (size_t part = 0; part < kStepParts; ++part) {
    if (share(summary.pure_decode, part) + share(summary.loaded, part) == 0) continue;
    std::string name(StepPartName(static_cast<StepPart>(part)));
    std::ranges::replace(name, '_', ' ');
    AddRow(table, name, summary, [&](const KindSummary& kind) {
      return kind.shares[part] == 0
                 ? std::pair<std::string, std::string>("-", "-")
                 : std::pair(Milliseconds(kind.parts[part]), Percent(kind.shares[part]));
    });
  }
  const auto add = [&](const char* name, auto&& cell) {
    AddRow(table, name, summary,
           [&](const KindSummary& kind) { return std::pair(cell(kind), std::string()); });
  };
  AddRow(table, "sum of parts", summary, [](const KindSummary& kind) {
    double sum = 0;
    for (const double part : kind.shares) sum += part;
    return std::pair(Milliseconds(kind.parts_sum), Percent(sum));
  });
  add("on the device", [](const KindSummary& kind) { return Milliseconds(kind.device); });
  add("step", [](const KindSummary& kind) { return Milliseconds(kind.duration); });
  add("floor", [](const KindSummary& kind) { return Milliseconds(kind.floor); });
  add("x floor", [](const KindSummary& kind) { return fmt::format("{:.2f}", kind.times_floor); });
  add("host: plan", [](const KindSummary& kind) { return Milliseconds(kind.plan); });
  add("host: launch", [](const KindSummary& kind) { return Milliseconds(kind.launch); });
  add("host: wait", [](const KindSummary& kind) { return Milliseconds(kind.wait); });
  add("host: deliver", [](const KindSummary& kind) { return Milliseconds(kind.deliver); });
  add("steps", [](const KindSummary& kind) { return fmt::format("{}", kind.steps); });
  return table.ToString();
}

GapSummary SummarizeGaps(std::span<const RequestTimes> requests) {
  std::vector<double> gaps;
  for (const RequestTimes& request : requests) {
    gaps.insert(gaps.end(), request.gaps.begin(), request.gaps.end());
  }
  if (gaps.empty()) return {};
  return {.gaps = static_cast<int64_t>(gaps.size()),
          .median = Median(gaps),
          .p99 = Quantile(gaps, 0.99),
          .max = std::ranges::max(gaps)};
}

}  // namespace decant
