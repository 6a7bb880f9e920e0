#include "apps/closed_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "apps/chunk_name.h"
#include "apps/step_columns.h"
#include "bench/quantile.h"
#include "bench/text_table.h"

namespace decant {
namespace {

std::vector<std::string> Columns() {
  std::vector<std::string> columns = {"utc_time",         "commit",
                                      "workload",         "seed",
                                      "batch_size",       "max_batch",
                                      "chunk_tokens",     "page_size",
                                      "decode_kernel",    "run",
                                      "wall_s",           "prompt_tokens",
                                      "generated_tokens", "generated_per_s",
                                      "first_token_p50_s"};
  for (std::string& name : StepColumns()) columns.push_back(std::move(name));
  return columns;
}

double FirstTokenMedian(const ClosedRun& run) {
  std::vector<double> times;
  times.reserve(run.requests.size());
  for (const RequestTimes& request : run.requests) times.push_back(request.first_token);
  return Median(times);
}

JsonObject DescribeBatch(const ClosedBatch& batch) {
  JsonObject object;
  object.Add("workload", batch.workload)
      .Add("seed", batch.seed)
      .Add("batch_size", batch.batch_size)
      .Add("max_batch", batch.max_batch);
  AddChunk(batch.chunk_tokens, object);
  return object.Add("page_size", batch.page_size)
      .Add("decode_kernel", batch.decode_kernel)
      .Add("prompt_tokens", batch.prompt_tokens)
      .Add("generated_tokens", batch.generated_tokens);
}

}  // namespace

std::string ClosedBatch::Label() const {
  return fmt::format("{} requests, {} rows, {}{}{}", batch_size, std::min(max_batch, batch_size),
                     decode_kernel, ChunkLabel(chunk_tokens),
                     one_of_seeds ? fmt::format(", seed {}", seed) : "");
}

std::string ClosedBatch::Line() const {
  const auto [least, most] = std::minmax_element(runs.begin(), runs.end());
  return fmt::format("{}: {:.2f} s ({:.2f} to {:.2f})", Label(), Median(runs), *least, *most);
}

std::string WallTable(std::span<const ClosedBatch> batches) {
  TextTable table({"batch", "wall s", "least", "most", "requests/s", "generated tokens/s"});
  for (const ClosedBatch& batch : batches) {
    const double wall = Median(batch.runs);
    const auto [least, most] = std::minmax_element(batch.runs.begin(), batch.runs.end());
    table.AddRow({batch.Label(), fmt::format("{:.2f}", wall), fmt::format("{:.2f}", *least),
                  fmt::format("{:.2f}", *most), fmt::format("{:.2f}", batch.batch_size / wall),
                  fmt::format("{:.0f}", static_cast<double>(batch.generated_tokens) / wall)});
  }
  return table.ToString();
}

std::vector<LabelledSteps> StepsOf(std::span<const ClosedBatch> batches) {
  std::vector<LabelledSteps> steps;
  steps.reserve(batches.size());
  for (const ClosedBatch& batch : batches) steps.push_back({batch.Label(), batch.steps});
  return steps;
}

Expected<ClosedResults> ClosedResults::Open(const std::string& folder, const RunHeader& header) {
  if (folder.empty()) return ClosedResults(std::nullopt);
  const std::filesystem::path path(folder);
  DECANT_ASSIGN_OR_RETURN(CsvWriter csv,
                          CsvWriter::Open(path / "runs.csv", Columns(), OutputMode::kAppend));
  DECANT_ASSIGN_OR_RETURN(JsonlWriter jsonl,
                          JsonlWriter::Open(path / "runs.jsonl", OutputMode::kAppend));
  DECANT_RETURN_IF_ERROR(jsonl.Write(ToJson(header)));
  return ClosedResults(Files{.csv = std::move(csv),
                             .jsonl = std::move(jsonl),
                             .utc_time = header.utc_time,
                             .commit = header.commit});
}

Status ClosedResults::AddRun(const ClosedBatch& batch, const ClosedRun& run,
                             const StepSummaries& steps) {
  if (!files_) return Status();
  const double first_token = FirstTokenMedian(run);
  const double rate = static_cast<double>(batch.generated_tokens) / run.wall_seconds;
  std::vector<CsvCell> cells = {files_->utc_time,
                                files_->commit,
                                batch.workload,
                                batch.seed,
                                batch.batch_size,
                                batch.max_batch,
                                batch.chunk_tokens,
                                batch.page_size,
                                batch.decode_kernel,
                                batch.runs.size(),
                                run.wall_seconds,
                                batch.prompt_tokens,
                                batch.generated_tokens,
                                rate,
                                first_token};
  for (CsvCell& cell : StepCells(steps)) cells.push_back(std::move(cell));
  DECANT_RETURN_IF_ERROR(files_->csv.WriteRow(cells));

  JsonObject object = DescribeBatch(batch);
  object.Add("run", batch.runs.size())
      .Add("wall_s", run.wall_seconds)
      .Add("generated_per_s", rate)
      .Add("first_token_p50_s", first_token);
  AddSteps(steps, object);
  return files_->jsonl.Write(JsonObject().Add("run", object));
}

Status ClosedResults::AddBatch(const ClosedBatch& batch, const MachineRates& rates) {
  if (!files_) return Status();
  JsonObject object = DescribeBatch(batch);
  object.Add("runs", batch.runs.size())
      .Add("wall_median_s", Median(batch.runs))
      .Add("memory_bytes_per_s", rates.bytes_per_second)
      .Add("operations_per_s", rates.operations_per_second);
  AddSteps(batch.steps, object);
  return files_->jsonl.Write(JsonObject().Add("batch", object));
}

Status ClosedResults::Close() {
  if (!files_) return Status();
  DECANT_RETURN_IF_ERROR(files_->csv.Close());
  return files_->jsonl.Close();
}

}  // namespace decant
