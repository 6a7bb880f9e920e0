#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "apps/simulate_command.h"
#include "bench/text_table.h"
#include "sim/device_file.h"
#include "sim/measured_steps.h"
#include "sim/result_table.h"
#include "sim/step_time_fit.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;

struct FitFlags {
  std::vector<std::string> steps{};
  std::vector<std::string> attention_only{};
  std::vector<std::string> closed{};
  int32_t multiprocessors = 0;
  int32_t kv_heads = 0;
  int64_t pool_slots = 0;
  std::string out{};
};

Expected<std::vector<MeasuredSteps>> ReadAll(const std::vector<std::string>& paths) {
  std::vector<MeasuredSteps> all;
  for (const std::string& path : paths) {
    DECANT_ASSIGN_OR_RETURN(MeasuredSteps steps, ReadMeasuredSteps(path));
    all.push_back(std::move(steps));
  }
  return all;
}

/// The pure decode steps of closed batches of short prompts, where the device waits for the host.
Expected<std::vector<HostPoint>> ReadHostPoints(const std::vector<std::string>& paths) {
  std::vector<HostPoint> points;
  for (const std::string& path : paths) {
    DECANT_ASSIGN_OR_RETURN(const ResultTable table, ResultTable::Read(path));
    for (size_t row = 0; row < table.rows(); ++row) {
      DECANT_ASSIGN_OR_RETURN(const std::string workload, table.Text(row, "workload"));
      if (!workload.starts_with('p')) continue;
      DECANT_ASSIGN_OR_RETURN(const int64_t batch, table.Integer(row, "batch_size"));
      DECANT_ASSIGN_OR_RETURN(const int64_t max_batch, table.Integer(row, "max_batch"));
      DECANT_ASSIGN_OR_RETURN(const double milliseconds, table.Number(row, "decode_p50_ms"));
      points.push_back({.rows = static_cast<int32_t>(std::min(batch, max_batch)),
                        .seconds = milliseconds / kMilli});
    }
  }
  return points;
}

std::string ResidualTable(const StepTimeFit& fit) {
  TextTable table({"what", "steps", "measured ms", "model ms", "|error| median", "p90"});
  for (const FitResidual& residual : fit.residuals) {
    table.AddRow({residual.what, fmt::format("{}", residual.steps),
                  fmt::format("{:.3f}", residual.measured * kMilli),
                  fmt::format("{:.3f}", residual.predicted * kMilli),
                  fmt::format("{:.1f}%", residual.median_error * 100),
                  fmt::format("{:.1f}%", residual.p90_error * 100)});
  }
  return table.ToString();
}

Status Fit(const FitFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const std::vector<MeasuredSteps> steps, ReadAll(flags.steps));
  DECANT_ASSIGN_OR_RETURN(const std::vector<MeasuredSteps> attention,
                          ReadAll(flags.attention_only));
  DECANT_ASSIGN_OR_RETURN(const std::vector<HostPoint> host, ReadHostPoints(flags.closed));
  DECANT_ASSIGN_OR_RETURN(const StepTimeFit fit,
                          FitStepTimes({.steps = steps,
                                        .attention_only = attention,
                                        .host = host,
                                        .multiprocessors = flags.multiprocessors,
                                        .kv_heads = flags.kv_heads,
                                        .pool_slots = flags.pool_slots}));
  std::printf("%s", ResidualTable(fit).c_str());
  for (const MeasuredSteps& run : steps) {
    std::printf("%s: timing added %.4f ms to each part that is timed once a layer\n",
                run.name.c_str(), run.timing_seconds * kMilli);
  }
  if (flags.out.empty()) return Status();
  std::vector<std::string> sources = flags.steps;
  std::ranges::copy(flags.attention_only, std::back_inserter(sources));
  std::ranges::copy(flags.closed, std::back_inserter(sources));
  return WriteDevice(fit.parameters, fmt::format("{}", fmt::join(sources, ", ")), flags.out);
}

}  // namespace

Command AddSimulateFitCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand("fit", "Fit a device file to measured steps");
  const auto flags = std::make_shared<FitFlags>();
  app.add_option("steps", flags->steps,
                 "steps.csv files of decant bench steps, their steps.jsonl beside them")
      ->required()
      ->type_name("STEPS.CSV...");
  app.add_option("--attention-only", flags->attention_only,
                 "steps.csv files that give the decode attention of their kernel and nothing else")
      ->type_name("FILE...");
  app.add_option("--closed", flags->closed,
                 "runs.csv files of decant bench closed: the pure decode medians of pN workloads "
                 "give the host's part (without: no host part)")
      ->type_name("FILE...");
  app.add_option("--multiprocessors", flags->multiprocessors,
                 "Of the device; flash chooses its splits by them")
      ->required()
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N");
  app.add_option("--kv-heads", flags->kv_heads, "Of the model; likewise")
      ->required()
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N");
  app.add_option("--pool-slots", flags->pool_slots, "Slots of the KV cache on that device")
      ->required()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->type_name("N");
  app.add_option("--out", flags->out, "Where the device file goes (default: print residuals only)")
      ->type_name("FILE");
  app.footer(
      "Each part of the model is fitted to the same part of the steps by least squares. What "
      "timing\n"
      "itself cost (timed walls less plain walls) is taken off first.\n"
      "Example:\n"
      "  decant simulate fit results/h200/steps/{fused,flash,flash-rows}/steps.csv \\\n"
      "    --closed results/h200/closed/{fused,flash,flash-rows}/runs.csv \\\n"
      "    --multiprocessors 132 --kv-heads 2 --pool-slots 1048576 --out data/devices/h200.json");
  return {.app = &app, .run = [flags] { return Fit(*flags); }};
}

}  // namespace decant
