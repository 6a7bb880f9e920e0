#include "sim/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/narrow.h"
#include "bench/json_lines.h"
#include "sim/named_workload.h"
#include "sim/result_table.h"
#include "sim/simulation.h"

namespace decant {
namespace {

constexpr double kMilli = 1e-3;
constexpr int32_t kReplaySlots = 1 << 22;  // more than any workload of the benches reserves
constexpr int32_t kLinearParts = 4;        // QKV, O, gate and up, down: each timed once a layer

/// What steps.jsonl says of the whole.
struct Summary {
  int32_t requests = 0;
  double plain_wall = 0;  ///< Means over the runs, seconds.
  double timed_wall = 0;
};

double Mean(const nlohmann::json& values) {
  double sum = 0;
  for (const nlohmann::json& value : values) sum += value.get<double>();
  return sum / static_cast<double>(values.size());
}

bool IsListOfNumbers(const nlohmann::json* values) {
  return values != nullptr && values->is_array() && !values->empty() &&
         std::ranges::all_of(*values, [](const auto& value) { return value.is_number(); });
}

Expected<Summary> ReadSummary(const std::filesystem::path& path) {
  Summary summary;
  const Status read =
      ForEachJsonLine(path, [&summary](int64_t, const nlohmann::json& line) -> Status {
        const nlohmann::json* steps = FindKey(line, "steps");
        if (steps == nullptr) return Status();
        constexpr int64_t kMostRequests = 1 << 20;
        DECANT_ASSIGN_OR_RETURN(const int64_t requests, ReadInteger(FindKey(*steps, "requests"),
                                                                    "requests", 1, kMostRequests));
        const nlohmann::json* plain = FindKey(*steps, "plain_walls_s");
        const nlohmann::json* timed = FindKey(*steps, "timed_walls_s");
        if (!IsListOfNumbers(plain) || !IsListOfNumbers(timed)) {
          return DataLoss("plain_walls_s and timed_walls_s must be lists of seconds");
        }
        summary = {.requests = Narrow<int32_t>(requests),
                   .plain_wall = Mean(*plain),
                   .timed_wall = Mean(*timed)};
        return Status();
      });
  DECANT_RETURN_IF_ERROR(read);
  if (summary.requests == 0) return DataLoss("{} has no line of steps", path.string());
  return summary;
}

/// The work of each step of one run, in order.
Expected<std::vector<StepWork>> Replay(const ResultTable& table, int32_t requests,
                                       int32_t page_size) {
  DECANT_ASSIGN_OR_RETURN(const std::string name, table.Text(0, "workload"));
  DECANT_ASSIGN_OR_RETURN(const int64_t max_batch, table.Integer(0, "max_batch"));
  DECANT_ASSIGN_OR_RETURN(const int64_t chunk_tokens, table.Integer(0, "chunk_tokens"));
  DECANT_ASSIGN_OR_RETURN(const Workload workload, NamedWorkloadOf(name, requests));
  StepTimeParameters clock{.one_step_in_flight = true};
  clock.linear = {{.tokens = 1, .seconds = kMilli}};
  clock.decode = {{.kernel = SimulatedKernel::kRows}};
  DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                          StepTimeModel::Create(clock, SimulatedKernel::kRows, page_size));
  DECANT_ASSIGN_OR_RETURN(const auto engine,
                          Simulate({.max_batch = static_cast<int32_t>(max_batch),
                                    .chunk_tokens = static_cast<int32_t>(chunk_tokens),
                                    .num_pages = kReplaySlots / page_size,
                                    .page_size = page_size,
                                    .keep_steps = true},
                                   model, RequestsOf(workload, {})));
  std::vector<StepWork> works;
  for (const SimulatedStep& step : engine->steps()) works.push_back(step.work);
  return works;
}

/// Cached tokens as rows of results count them.
int64_t CachedTokens(const StepWork& work) { return work.decode_positions + work.prompt_positions; }

Expected<MeasuredStep> ReadStep(const ResultTable& table, size_t row, const StepWork& work) {
  for (const auto& [column, expected] : {std::pair<const char*, int64_t>{"rows", work.rows},
                                         {"prompt_tokens", work.prompt_tokens},
                                         {"decode_tokens", work.decode_tokens},
                                         {"cached_tokens", CachedTokens(work)}}) {
    DECANT_ASSIGN_OR_RETURN(const int64_t value, table.Integer(row, column));
    if (value != expected) {
      return DataLoss("row {}: {} is {}; a replay of the workload has {}", row + 1, column, value,
                      expected);
    }
  }
  const auto sum = [&](std::initializer_list<const char*> columns) -> Expected<double> {
    double seconds = 0;
    for (const char* column : columns) {
      DECANT_ASSIGN_OR_RETURN(const double value, table.Number(row, column));
      seconds += value * kMilli;
    }
    return seconds;
  };
  MeasuredStep step{.work = work};
  DECANT_ASSIGN_OR_RETURN(step.linear, sum({"qkv_ms", "o_ms", "gate_up_ms", "down_ms"}));
  DECANT_ASSIGN_OR_RETURN(step.prompt_attention, sum({"prompt_attention_ms"}));
  DECANT_ASSIGN_OR_RETURN(step.decode_attention, sum({"decode_attention_ms"}));
  DECANT_ASSIGN_OR_RETURN(const double device, sum({"device_ms"}));
  step.rest = device - step.linear - step.prompt_attention - step.decode_attention;
  return step;
}

Expected<MeasuredSteps> ReadSteps(const std::filesystem::path& steps_csv) {
  DECANT_ASSIGN_OR_RETURN(const ResultTable table, ResultTable::Read(steps_csv));
  if (table.rows() == 0) return DataLoss("no steps");
  DECANT_ASSIGN_OR_RETURN(
      const Summary summary,
      ReadSummary(std::filesystem::path(steps_csv).replace_extension(".jsonl")));
  MeasuredSteps measured;
  DECANT_ASSIGN_OR_RETURN(measured.device, table.Text(0, "device"));
  DECANT_ASSIGN_OR_RETURN(measured.model, table.Text(0, "model"));
  DECANT_ASSIGN_OR_RETURN(const std::string kernel, table.Text(0, "decode_kernel"));
  DECANT_ASSIGN_OR_RETURN(measured.kernel, FindSimulatedKernel(kernel));
  DECANT_ASSIGN_OR_RETURN(const int64_t page_size, table.Integer(0, "page_size"));
  measured.page_size = Narrow<int32_t>(page_size);
  measured.name = fmt::format("{}, pages of {}", kernel, page_size);
  DECANT_ASSIGN_OR_RETURN(const std::vector<StepWork> works,
                          Replay(table, summary.requests, measured.page_size));
  if (table.rows() % works.size() != 0) {
    return DataLoss("{} rows; a run of the workload has {} steps", table.rows(), works.size());
  }
  double timed_parts = 0;
  for (size_t row = 0; row < table.rows(); ++row) {
    const StepWork& work = works[row % works.size()];
    DECANT_ASSIGN_OR_RETURN(const MeasuredStep step, ReadStep(table, row, work));
    measured.steps.push_back(step);
    timed_parts += kLinearParts + (work.prompt_tokens > 0) + (work.decode_tokens > 0);
  }
  const double runs = static_cast<double>(table.rows()) / static_cast<double>(works.size());
  measured.timing_seconds =
      std::max(0.0, summary.timed_wall - summary.plain_wall) * runs / timed_parts;
  for (MeasuredStep& step : measured.steps) {
    step.linear -= kLinearParts * measured.timing_seconds;
    if (step.work.prompt_tokens > 0) step.prompt_attention -= measured.timing_seconds;
    if (step.work.decode_tokens > 0) step.decode_attention -= measured.timing_seconds;
  }
  return measured;
}

}  // namespace

Expected<MeasuredSteps> ReadMeasuredSteps(const std::filesystem::path& steps_csv) {
  Expected<MeasuredSteps> measured = ReadSteps(steps_csv);
  if (!measured.ok()) return measured.status().WithContext(steps_csv.string());
  return measured;
}

}  // namespace decant
