#include "apps/arrivals_results.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <utility>

#include "apps/chunk_name.h"
#include "apps/step_columns.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;

/// A row of arrivals.csv: names and cells, in order.
class Row {
 public:
  Row(const std::string& utc_time, const std::string& commit, const ArrivalsPoint& point) {
    Add("utc_time", utc_time);
    Add("commit", commit);
    AddSetup(point.setup);
    Add("trace", point.trace);
    Add("rate", point.rate);
    Add("requests", point.summary.completed + point.left_out);
    Add("left_out", point.left_out);
    AddSummary(point.summary);
    const std::vector<std::string> names = StepColumns();
    const std::vector<CsvCell> cells = StepCells(point.steps);
    for (size_t i = 0; i < names.size(); ++i) Add(names[i], cells[i]);
    Add("late_max_ms", point.summary.late * kMilli);
  }

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<CsvCell>& cells() const { return cells_; }

 private:
  void Add(std::string name, CsvCell cell) {
    names_.push_back(std::move(name));
    cells_.push_back(std::move(cell));
  }

  void AddSetup(const ArrivalsSetup& setup) {
    Add("device", setup.device);
    Add("model", setup.model);
    Add("workload", setup.workload);
    Add("seed", setup.seed);
    Add("engine", setup.engine);
    Add("decode_kernel", setup.decode_kernel);
    Add("page_size", setup.page_size);
    Add("pages", setup.pages);
    Add("max_batch", setup.max_batch);
    Add("chunk_tokens", setup.chunk_tokens);
  }

  void AddSummary(const ArrivalsSummary& summary) {
    constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
    const Spread gap = summary.gap.value_or(Spread{kMissing, kMissing, kMissing});
    Add("completed", summary.completed);
    Add("wall_s", summary.wall);
    Add("served_per_s", summary.served_rate);
    Add("prompt_tokens", summary.prompt_tokens);
    Add("generated_tokens", summary.generated_tokens);
    Add("generated_per_s", summary.generated_rate);
    Add("queue_p50_s", summary.queue.median);
    Add("queue_p99_s", summary.queue.p99);
    Add("first_token_p50_s", summary.first_token.median);
    Add("first_token_p99_s", summary.first_token.p99);
    Add("gap_p50_ms", gap.median * kMilli);
    Add("gap_p99_ms", gap.p99 * kMilli);
    Add("gap_max_ms", gap.max * kMilli);
    Add("latency_p50_s", summary.latency.median);
    Add("latency_p99_s", summary.latency.p99);
    Add("pages_p50", summary.pages.median);
    Add("pages_max", summary.pages.max);
  }

  std::vector<std::string> names_;
  std::vector<CsvCell> cells_;
};

JsonObject Describe(const ArrivalsSetup& setup) {
  JsonObject object;
  object.Add("device", setup.device)
      .Add("model", setup.model)
      .Add("workload", setup.workload)
      .Add("seed", setup.seed)
      .Add("arrival_seed", setup.arrival_seed)
      .Add("engine", setup.engine)
      .Add("decode_kernel", setup.decode_kernel)
      .Add("page_size", setup.page_size)
      .Add("pages", setup.pages)
      .Add("max_batch", setup.max_batch);
  AddChunk(setup.chunk_tokens, object);
  return object;
}

/// `unit` is what the spread's values are multiplied by.
JsonObject ToJson(const Spread& spread, double unit) {
  return JsonObject()
      .Add("median", spread.median * unit)
      .Add("p99", spread.p99 * unit)
      .Add("max", spread.max * unit);
}

void AddSummary(const ArrivalsSummary& summary, JsonObject& object) {
  object.Add("completed", summary.completed)
      .Add("wall_s", summary.wall)
      .Add("served_per_s", summary.served_rate)
      .Add("prompt_tokens", summary.prompt_tokens)
      .Add("generated_tokens", summary.generated_tokens)
      .Add("generated_per_s", summary.generated_rate)
      .Add("queue_s", ToJson(summary.queue, 1))
      .Add("first_token_s", ToJson(summary.first_token, 1));
  if (summary.gap) object.Add("gap_ms", ToJson(*summary.gap, kMilli));
  object.Add("latency_s", ToJson(summary.latency, 1))
      .Add("pages_in_use", ToJson(summary.pages, 1))
      .Add("late_max_ms", summary.late * kMilli);
}

const char* Name(CurveEnd end) {
  switch (end) {
    case CurveEnd::kClimbing:
      return "climbing";
    case CurveEnd::kLevelled:
      return "levelled";
    case CurveEnd::kFallen:
      return "fallen";
  }
  return "";
}

}  // namespace

std::string ArrivalsSetup::Label() const {
  return fmt::format("{}, {} rows, {}{}{}", engine, max_batch, decode_kernel,
                     ChunkLabel(chunk_tokens), one_of_seeds ? fmt::format(", seed {}", seed) : "");
}

std::string ArrivalsPoint::Label() const {
  return fmt::format("{}rate {:.4g}, {}", trace.empty() ? "" : trace + ", ", rate, setup.Label());
}

std::string ArrivalsPoint::Line() const {
  return fmt::format(
      "{}: served {:.2f} requests/s, {:.0f} tokens/s; queue wait {:.3f} s (p99 {:.3f}); first "
      "token {:.3f} s (p99 {:.3f})",
      Label(), summary.served_rate, summary.generated_rate, summary.queue.median, summary.queue.p99,
      summary.first_token.median, summary.first_token.p99);
}

std::string ArrivalsTable(std::span<const ArrivalsPoint> points) {
  TextTable table({"arrivals", "offered/s", "served/s", "tokens/s", "queue p50 s", "p99",
                   "first token p50 s", "p99", "gap p50 ms", "p99", "max", "latency p50 s", "p99",
                   "pages p50", "max", "of"});
  for (const ArrivalsPoint& point : points) {
    const ArrivalsSummary& summary = point.summary;
    const auto gap = [&](double Spread::*value) {
      return summary.gap ? fmt::format("{:.1f}", *summary.gap.*value * kMilli) : "";
    };
    table.AddRow(
        {point.Label(), fmt::format("{:.2f}", point.offered),
         fmt::format("{:.2f}", summary.served_rate), fmt::format("{:.0f}", summary.generated_rate),
         fmt::format("{:.3f}", summary.queue.median), fmt::format("{:.3f}", summary.queue.p99),
         fmt::format("{:.3f}", summary.first_token.median),
         fmt::format("{:.3f}", summary.first_token.p99), gap(&Spread::median), gap(&Spread::p99),
         gap(&Spread::max), fmt::format("{:.2f}", summary.latency.median),
         fmt::format("{:.2f}", summary.latency.p99), fmt::format("{:.0f}", summary.pages.median),
         fmt::format("{:.0f}", summary.pages.max), fmt::format("{}", point.setup.pages)});
  }
  return table.ToString();
}

std::vector<LabelledSteps> StepsOf(std::span<const ArrivalsPoint> points) {
  std::vector<LabelledSteps> steps;
  steps.reserve(points.size());
  for (const ArrivalsPoint& point : points) steps.push_back({point.Label(), point.steps});
  return steps;
}

std::vector<RatePoint> CurveOf(std::span<const ArrivalsPoint> points) {
  std::vector<RatePoint> curve;
  curve.reserve(points.size());
  for (const ArrivalsPoint& point : points) {
    curve.push_back({point.rate, point.offered, point.summary.served_rate});
  }
  return curve;
}

std::string SaturationSentence(std::span<const ArrivalsPoint> points) {
  const Saturation saturation = FindSaturation(CurveOf(points));
  const std::string highest =
      fmt::format("{}: {:.2f} requests/s served at most, at rate {:.4g}",
                  points.front().setup.Label(), saturation.best.served, saturation.best.rate);
  if (points.size() == 1) {
    return highest + "; one rate alone does not show whether that is the capacity";
  }
  if (saturation.end == CurveEnd::kClimbing) {
    return highest + ", the last point of a curve that still climbs: not the capacity";
  }
  if (saturation.best.rate == saturation.last.rate) {
    return highest + ", where the curve has levelled: that is the capacity";
  }
  return fmt::format("{}; that is the capacity: the curve has {} by rate {:.4g} ({:.2f} served)",
                     highest, Name(saturation.end), saturation.last.rate, saturation.last.served);
}

Expected<ArrivalsResults> ArrivalsResults::Open(const std::string& folder,
                                                const RunHeader& header) {
  if (folder.empty()) return ArrivalsResults(std::nullopt);
  const std::filesystem::path path(folder);
  DECANT_ASSIGN_OR_RETURN(
      CsvWriter csv,
      CsvWriter::Open(path / "arrivals.csv", Row("", "", {}).names(), OutputMode::kAppend));
  DECANT_ASSIGN_OR_RETURN(JsonlWriter jsonl,
                          JsonlWriter::Open(path / "arrivals.jsonl", OutputMode::kAppend));
  DECANT_RETURN_IF_ERROR(jsonl.Write(ToJson(header)));
  return ArrivalsResults(Files{.csv = std::move(csv),
                               .jsonl = std::move(jsonl),
                               .utc_time = header.utc_time,
                               .commit = header.commit});
}

Status ArrivalsResults::AddPoint(const ArrivalsPoint& point, const MachineRates& rates) {
  if (!files_) return Status();
  DECANT_RETURN_IF_ERROR(
      files_->csv.WriteRow(Row(files_->utc_time, files_->commit, point).cells()));
  JsonObject object = Describe(point.setup);
  object.Add("trace", point.trace)
      .Add("rate", point.rate)
      .Add("offered_per_s", point.offered)
      .Add("requests", point.summary.completed + point.left_out)
      .Add("left_out", point.left_out);
  AddSummary(point.summary, object);
  AddSteps(point.steps, object);
  object.Add("memory_bytes_per_s", rates.bytes_per_second)
      .Add("operations_per_s", rates.operations_per_second);
  return files_->jsonl.Write(JsonObject().Add("rate", object));
}

Status ArrivalsResults::AddSaturation(std::span<const ArrivalsPoint> points) {
  if (!files_) return Status();
  const Saturation saturation = FindSaturation(CurveOf(points));
  JsonObject object = Describe(points.front().setup);
  object.Add("rates", points.size())
      .Add("highest_served_per_s", saturation.best.served)
      .Add("at_rate", saturation.best.rate)
      .Add("last_rate", saturation.last.rate)
      .Add("last_served_per_s", saturation.last.served)
      .Add("curve", Name(saturation.end));
  return files_->jsonl.Write(JsonObject().Add("saturation", object));
}

Status ArrivalsResults::Close() {
  if (!files_) return Status();
  DECANT_RETURN_IF_ERROR(files_->csv.Close());
  return files_->jsonl.Close();
}

}  // namespace decant
