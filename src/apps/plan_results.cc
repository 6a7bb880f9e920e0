#include "apps/plan_results.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
/// A run that is shorter than so many times the target may end before its queue shows.
constexpr double kShortRun = 60;

/// Names and values of a row of plan.csv, in order.
class Columns {
 public:
  explicit Columns(const PlanRow& row) {
    AddSetup(row.setup);
    Add("requests", row.requests);
    Add("left_out", row.left_out);
    AddPoint(row.answer.held.value_or(Nothing(row.setup)));
    AddBeyond(row);
    Add("alone_first_token_p99_s", row.answer.alone.first_token_p99);
    Add("alone_gap_p99_ms", row.answer.alone.gap_p99 * kMilli);
    Add("runs", int64_t{row.answer.runs});
  }

  std::vector<std::string>& names() { return names_; }
  const std::vector<RowValue>& values() const { return values_; }

 private:
  void Add(std::string name, RowValue value) {
    names_.push_back(std::move(name));
    values_.push_back(std::move(value));
  }

  void AddSetup(const PlanSetup& setup) {
    Add("device", setup.device);
    Add("model", setup.model);
    Add("workload", setup.workload);
    Add("seed", static_cast<int64_t>(setup.seed));
    Add("trace", setup.trace);
    Add("policy", setup.policy);
    Add("turns", setup.turns);
    Add("decode_kernel", setup.decode_kernel);
    Add("page_size", int64_t{setup.page_size});
    Add("pool_slots", setup.pool_slots);
    Add("max_batch", int64_t{setup.max_batch});
    Add("chunk_tokens", int64_t{setup.chunk_tokens});
    Add("question", setup.machines ? "highest rate" : "least machines");
    Add("target_first_token_p99_s", setup.target.first_token_p99.value_or(kMissing));
    Add("target_gap_p99_ms", setup.target.gap_p99.value_or(kMissing / kMilli) * kMilli);
  }

  /// Where nothing holds: the rate 0, or no number of machines.
  static PlanPoint Nothing(const PlanSetup& setup) {
    PlanPoint point{.machines = setup.machines.value_or(0)};
    SimulationSummary& summary = point.summary;
    for (double* value : {&summary.wall, &summary.served_rate, &summary.generated_rate,
                          &summary.queue_p99, &summary.first_token_median, &summary.first_token_p99,
                          &summary.gap_median, &summary.gap_p99}) {
      *value = kMissing;
    }
    return point;
  }

  void AddPoint(const PlanPoint& point) {
    const SimulationSummary& summary = point.summary;
    Add("machines", int64_t{point.machines});
    Add("speedup", point.speedup);
    Add("rate", point.rate);
    Add("rate_per_machine", point.machines > 0 ? point.rate / point.machines : 0);
    Add("wall_s", summary.wall);
    Add("served_per_s", summary.served_rate);
    Add("generated_per_s", summary.generated_rate);
    Add("queue_p99_s", summary.queue_p99);
    Add("first_token_p50_s", summary.first_token_median);
    Add("first_token_p99_s", summary.first_token_p99);
    Add("gap_p50_ms", summary.gap_median * kMilli);
    Add("gap_p99_ms", summary.gap_p99 * kMilli);
    Add("kept_share", point.kept_share);
  }

  void AddBeyond(const PlanRow& row) {
    const std::optional<PlanPoint>& beyond = row.answer.beyond;
    Add("beyond_machines", int64_t{beyond ? beyond->machines : 0});
    Add("beyond_rate", beyond ? beyond->rate : kMissing);
    Add("beyond_first_token_p99_s", beyond ? beyond->summary.first_token_p99 : kMissing);
    Add("beyond_gap_p99_ms", beyond ? beyond->summary.gap_p99 * kMilli : kMissing);
    Add("beyond_misses", beyond ? row.setup.target.Missed(beyond->summary) : "");
  }

  std::vector<std::string> names_;
  std::vector<RowValue> values_;
};

/// What stands in the way of more, or of fewer machines.
std::string Limit(const PlanRow& row) {
  const PlanTarget& target = row.setup.target;
  const std::optional<PlanPoint>& beyond = row.answer.beyond;
  if (!target.HeldBy(row.answer.alone)) return target.Missed(row.answer.alone) + " alone";
  if (!beyond) return "-";
  return fmt::format("{} at {}", target.Missed(beyond->summary),
                     row.setup.machines ? fmt::format("{:.4g}/s", beyond->rate)
                                        : fmt::format("{} machines", beyond->machines));
}

}  // namespace

std::string PlanSetup::Label() const {
  return fmt::format("{}, {}: {} rows, chunks of {}, pages of {}, pool of {}", policy,
                     decode_kernel, max_batch, chunk_tokens, page_size, pool_slots);
}

Expected<PlanResults> PlanResults::Open(const std::string& folder, const RunHeader& header) {
  DECANT_ASSIGN_OR_RETURN(
      RowFiles files,
      RowFiles::Open(folder, "plan", std::move(Columns(PlanRow{}).names()), header));
  return PlanResults(std::move(files));
}

Status PlanResults::Add(const PlanRow& row) { return files_.Add(Columns(row).values()); }

std::string PlanTable(const std::vector<PlanRow>& rows) {
  TextTable table({"setting", "machines", "rate/s", "speed-up", "a machine/s", "first p99 s",
                   "gap p99 ms", "runs", "misses"});
  for (const PlanRow& row : rows) {
    const std::string runs = fmt::format("{}", row.answer.runs);
    if (!row.answer.held) {
      table.AddRow({row.setup.Label(), "none", "-", "-", "-", "-", "-", runs, Limit(row)});
      continue;
    }
    const PlanPoint& held = *row.answer.held;
    table.AddRow({row.setup.Label(), fmt::format("{}", held.machines),
                  fmt::format("{:.4g}", held.rate), fmt::format("{:.4g}", held.speedup),
                  fmt::format("{:.3g}", held.rate / held.machines),
                  fmt::format("{:.3f}", held.summary.first_token_p99),
                  fmt::format("{:.2f}", held.summary.gap_p99 * kMilli), runs, Limit(row)});
  }
  return table.ToString();
}

std::string PlanRemark(const PlanRow& row) {
  const PlanTarget& target = row.setup.target;
  if (!target.HeldBy(row.answer.alone)) {
    return fmt::format(
        "{}: no fleet holds the target. A request alone on a machine has a p99 first token of "
        "{:.3f} s and a p99 token gap of {:.2f} ms.",
        row.setup.Label(), row.answer.alone.first_token_p99, row.answer.alone.gap_p99 * kMilli);
  }
  if (!row.answer.held) {
    return fmt::format("{}: not held by any of the {} {}", row.setup.Label(), row.answer.runs,
                       row.setup.machines ? "rates that were tried (--repeat, --requests)"
                                          : "fleets that were tried (--most-machines)");
  }
  const double wall = row.answer.held->summary.wall;
  if (target.first_token_p99 && wall < kShortRun * *target.first_token_p99) {
    return fmt::format(
        "{}: the traffic lasted {:.0f} s, under {:.0f} times the first token's target: too short "
        "for a queue to show (--repeat, --requests).",
        row.setup.Label(), wall, kShortRun);
  }
  return "";
}

}  // namespace decant
