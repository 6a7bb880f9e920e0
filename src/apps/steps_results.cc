#include "apps/steps_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/chunk_name.h"
#include "bench/chrome_trace.h"
#include "bench/quantile.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;

const std::vector<std::string>& Columns() {
  static const std::vector<std::string> columns = {"utc_time",
                                                   "commit",
                                                   "device",
                                                   "model",
                                                   "workload",
                                                   "seed",
                                                   "engine",
                                                   "decode_kernel",
                                                   "page_size",
                                                   "max_batch",
                                                   "chunk_tokens",
                                                   "run",
                                                   "step",
                                                   "kind",
                                                   "rows",
                                                   "prompt_tokens",
                                                   "decode_tokens",
                                                   "cached_tokens",
                                                   "plan_ms",
                                                   "launch_ms",
                                                   "wait_ms",
                                                   "deliver_ms",
                                                   "duration_ms",
                                                   "device_ms",
                                                   "floor_ms",
                                                   "upload_ms",
                                                   "embed_ms",
                                                   "qkv_ms",
                                                   "prompt_attention_ms",
                                                   "decode_attention_ms",
                                                   "o_ms",
                                                   "gate_up_ms",
                                                   "down_ms",
                                                   "head_ms",
                                                   "sample_ms",
                                                   "download_ms",
                                                   "attention_split"};
  return columns;
}

/// The parts' columns. Attention that ran both kernels at once is split as its pairs of a query and
/// a key are, which attention_split says.
void AppendParts(const StepTimes& times, std::vector<CsvCell>& cells) {
  std::array<double, kStepParts> parts = times.Parts();
  const auto at = [&](StepPart part) -> double& { return parts[static_cast<size_t>(part)]; };
  const double both = at(StepPart::kAttention);
  at(StepPart::kPromptAttention) += both * (1 - times.decode_share);
  at(StepPart::kDecodeAttention) += both * times.decode_share;
  for (size_t part = 0; part < kStepParts; ++part) {
    if (static_cast<StepPart>(part) == StepPart::kAttention) continue;
    cells.emplace_back(parts[part] * kMilli);
  }
  cells.emplace_back(both > 0 ? "pairs" : "measured");
}

JsonArray ToArray(std::span<const double> values) {
  JsonArray array;
  for (const double value : values) array.Add(value);
  return array;
}

void AddWall(TextTable& table, const char* name, std::span<const double> walls) {
  const auto [least, most] = std::ranges::minmax_element(walls);
  table.AddRow({name, fmt::format("{}", walls.size()), fmt::format("{:.3f}", Median(walls)),
                fmt::format("{:.3f}", *least), fmt::format("{:.3f}", *most)});
}

}  // namespace

double StepsOutcome::CostOfTiming() const { return Median(timed_walls) / Median(plain_walls) - 1; }

std::string WallText(const StepsOutcome& outcome) {
  TextTable table({"wall, to the last request", "runs", "median s", "least", "most"});
  AddWall(table, "plain", outcome.plain_walls);
  AddWall(table, "timed part by part", outcome.timed_walls);
  return fmt::format("{}timing costs {:+.1f}% of the wall time\n", table.ToString(),
                     outcome.CostOfTiming() * 100);
}

std::string GapText(const GapSummary& gaps) {
  return fmt::format(
      "token gaps of requests that generate, plain runs: median {:.2f} ms, p99 {:.2f} ms, "
      "max {:.2f} ms ({} gaps)\n",
      gaps.median * kMilli, gaps.p99 * kMilli, gaps.max * kMilli, gaps.gaps);
}

Expected<StepsResults> StepsResults::Open(const std::string& folder, const RunHeader& header) {
  if (folder.empty()) return StepsResults(std::nullopt);
  const std::filesystem::path path(folder);
  DECANT_ASSIGN_OR_RETURN(CsvWriter csv,
                          CsvWriter::Open(path / "steps.csv", Columns(), OutputMode::kAppend));
  DECANT_ASSIGN_OR_RETURN(JsonlWriter jsonl,
                          JsonlWriter::Open(path / "steps.jsonl", OutputMode::kAppend));
  DECANT_RETURN_IF_ERROR(jsonl.Write(ToJson(header)));
  return StepsResults(
      Files{.csv = std::move(csv), .jsonl = std::move(jsonl), .folder = folder, .header = header});
}

Status StepsResults::AddRun(const StepsSetting& setting, int32_t run,
                            std::span<const TracedStep> steps, const MachineRates& rates) {
  if (!files_) return Status();
  for (const TracedStep& step : steps) {
    const StepRecord& record = step.record;
    std::vector<CsvCell> cells = {files_->header.utc_time,
                                  files_->header.commit,
                                  setting.device,
                                  setting.model,
                                  setting.workload,
                                  setting.seed,
                                  setting.engine,
                                  setting.decode_kernel,
                                  setting.page_size,
                                  setting.max_batch,
                                  setting.chunk_tokens,
                                  run,
                                  record.step,
                                  record.pure_decode() ? "pure_decode" : "loaded",
                                  record.rows,
                                  record.prompt_tokens,
                                  record.decode_tokens,
                                  record.cached_tokens,
                                  record.plan * kMilli,
                                  record.launch * kMilli,
                                  record.wait * kMilli,
                                  record.deliver * kMilli,
                                  record.duration * kMilli,
                                  record.device * kMilli,
                                  rates.FloorSeconds(record.bytes, record.operations) * kMilli};
    AppendParts(step.times, cells);
    DECANT_RETURN_IF_ERROR(files_->csv.WriteRow(cells));
  }
  return Status();
}

Status StepsResults::Close(const StepsSetting& setting, const StepsOutcome& outcome,
                           std::span<const TracedStep> last_run, const MachineRates& rates) {
  if (!files_) return Status();
  JsonObject object = JsonObject()
                          .Add("device", setting.device)
                          .Add("model", setting.model)
                          .Add("workload", setting.workload)
                          .Add("seed", setting.seed)
                          .Add("engine", setting.engine)
                          .Add("decode_kernel", setting.decode_kernel)
                          .Add("page_size", setting.page_size)
                          .Add("max_batch", setting.max_batch);
  AddChunk(setting.chunk_tokens, object);
  object.Add("requests", setting.requests)
      .Add("memory_bytes_per_s", rates.bytes_per_second)
      .Add("operations_per_s", rates.operations_per_second)
      .Add("plain_walls_s", ToArray(outcome.plain_walls))
      .Add("timed_walls_s", ToArray(outcome.timed_walls))
      .Add("cost_of_timing", outcome.CostOfTiming())
      .Add("gaps", JsonObject()
                       .Add("gaps", outcome.gaps.gaps)
                       .Add("median_ms", outcome.gaps.median * kMilli)
                       .Add("p99_ms", outcome.gaps.p99 * kMilli)
                       .Add("max_ms", outcome.gaps.max * kMilli))
      .Add("idle", ToJson(outcome.idle))
      .Add("host", ToJson(outcome.host));
  if (outcome.steps.pure_decode) object.Add("pure_decode", ToJson(*outcome.steps.pure_decode));
  if (outcome.steps.loaded) object.Add("loaded", ToJson(*outcome.steps.loaded));
  DECANT_RETURN_IF_ERROR(files_->jsonl.Write(JsonObject().Add("steps", object)));
  DECANT_RETURN_IF_ERROR(WriteChromeTrace(std::filesystem::path(files_->folder) / "trace.json",
                                          last_run, rates, setting.device, files_->header));
  DECANT_RETURN_IF_ERROR(files_->csv.Close());
  return files_->jsonl.Close();
}

}  // namespace decant
