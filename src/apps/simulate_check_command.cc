#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/row_files.h"
#include "apps/simulate_command.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "bench/quantile.h"
#include "bench/text_table.h"
#include "sim/campaign_check.h"
#include "sim/device_file.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;

struct CheckFlags {
  std::string device{};
  std::string results{};
  std::string traces = "tests/data/traces";
  std::vector<std::string> kernels{};
  std::string out{};
};

std::string RunName(const CampaignPoint& point) {
  return point.trace.empty() ? point.workload : point.trace;
}

std::string EngineName(const CampaignPoint& point) {
  return fmt::format("{}-{}", SimulatedKernelName(point.kernel), point.engine.page_size);
}

/// Keeps the table and the summary of one check.
class Check {
 public:
  void Add(const CampaignPoint& point, const CampaignPrediction& prediction) {
    const double error = prediction.value / point.measured - 1;
    const auto milliseconds = [](double seconds) {
      return fmt::format("{:.2f}", seconds * kMilli);
    };
    table_.AddRow({point.source, EngineName(point), RunName(point),
                   fmt::format("{}", point.requests),
                   point.closed() ? "closed" : fmt::format("{:.4g}", point.rate),
                   fmt::format("{:.3f}", point.measured), fmt::format("{:.3f}", prediction.value),
                   fmt::format("{:+.1f}%", error * 100),
                   point.closed() ? "" : fmt::format("{:.3f}", point.measured_queue),
                   point.closed() ? "" : fmt::format("{:.3f}", prediction.queue),
                   milliseconds(point.measured_decode_step), milliseconds(prediction.decode_step),
                   milliseconds(point.measured_loaded_step), milliseconds(prediction.loaded_step)});
    Group& group = groups_[fmt::format("{} {}", point.source, EngineName(point))];
    group.errors.push_back(std::abs(error));
    group.sum += error;
  }

  void Print() const {
    TextTable summary({"runs", "number", "mean error", "|error| median", "largest"});
    double worst = 0;
    size_t within = 0;
    size_t points = 0;
    for (const auto& [name, group] : groups_) {
      const auto number = static_cast<double>(group.errors.size());
      const double largest = Quantile(group.errors, 1);
      summary.AddRow({name, fmt::format("{}", group.errors.size()),
                      fmt::format("{:+.1f}%", group.sum / number * 100),
                      fmt::format("{:.1f}%", Median(group.errors) * 100),
                      fmt::format("{:.1f}%", largest * 100)});
      worst = std::max(worst, largest);
      points += group.errors.size();
      within += static_cast<size_t>(
          std::ranges::count_if(group.errors, [](double error) { return error <= kAllowed; }));
    }
    std::printf(
        "%s\nclosed batches: seconds to the last request; open runs: requests served a "
        "second\n\n%s\n%zu of %zu within %.0f%%; the largest error is %.1f%%\n",
        table_.ToString().c_str(), summary.ToString().c_str(), within, points, kAllowed * 100,
        worst * 100);
  }

 private:
  /// Errors of predictions, as shares.
  struct Group {
    std::vector<double> errors{};  ///< Without their signs.
    double sum = 0;                ///< With them.
  };

  static constexpr double kAllowed = 0.05;
  TextTable table_{{"run", "engine", "workload", "requests", "rate", "measured", "model", "error",
                    "queue s", "model", "decode ms", "model", "loaded ms", "model"}};
  std::map<std::string, Group> groups_;  ///< By file and engine.
};

/// Leaves the runs of the kernels named, all where none is.
Status KeepKernels(const std::vector<std::string>& names, std::vector<CampaignPoint>& points) {
  if (names.empty()) return Status();
  std::vector<SimulatedKernel> kernels;
  for (const std::string& name : names) {
    DECANT_ASSIGN_OR_RETURN(const SimulatedKernel kernel, FindSimulatedKernel(name));
    kernels.push_back(kernel);
  }
  std::erase_if(points, [&](const CampaignPoint& point) {
    return std::ranges::find(kernels, point.kernel) == kernels.end();
  });
  if (!points.empty()) return Status();
  return Error(StatusCode::kNotFound, "--results has no run of --decode-kernel {}",
               fmt::join(names, ","));
}

Status RunCheck(const CheckFlags& flags, std::span<const char* const> command) {
  DECANT_ASSIGN_OR_RETURN(const StepTimeParameters device, ReadDevice(flags.device));
  DECANT_ASSIGN_OR_RETURN(std::vector<CampaignPoint> points, ReadCampaign(flags.results));
  DECANT_RETURN_IF_ERROR(KeepKernels(flags.kernels, points));
  DECANT_ASSIGN_OR_RETURN(
      RowFiles files,
      RowFiles::Open(flags.out, "check",
                     {"device", "source", "decode_kernel", "page_size", "workload", "requests",
                      "rate", "what", "measured", "predicted", "error", "measured_queue_p50_s",
                      "predicted_queue_p50_s", "measured_decode_p50_ms", "predicted_decode_p50_ms",
                      "measured_loaded_p50_ms", "predicted_loaded_p50_ms"},
                     MakeRunHeader(command, 0)));
  Check check;
  {
    Progress progress("simulating", std::ssize(points), "runs");
    for (const CampaignPoint& point : points) {
      if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
      DECANT_ASSIGN_OR_RETURN(const CampaignPrediction prediction,
                              Predict(point, device, flags.traces));
      check.Add(point, prediction);
      DECANT_RETURN_IF_ERROR(files.Add(std::vector<RowValue>{
          device.device, point.source, std::string(SimulatedKernelName(point.kernel)),
          int64_t{point.engine.page_size}, RunName(point), int64_t{point.requests}, point.rate,
          point.closed() ? "closed_s" : "served_per_s", point.measured, prediction.value,
          prediction.value / point.measured - 1, point.measured_queue, prediction.queue,
          point.measured_decode_step * kMilli, prediction.decode_step * kMilli,
          point.measured_loaded_step * kMilli, prediction.loaded_step * kMilli}));
      progress.Advance(1);
    }
  }
  check.Print();
  return files.Close();
}

}  // namespace

Command AddSimulateCheckCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "check", "Predict the runs of a campaign and set them beside what was measured");
  const auto flags = std::make_shared<CheckFlags>();
  app.add_option("--device-file", flags->device, "Step times of the device")
      ->required()
      ->type_name("FILE");
  app.add_option("--results", flags->results,
                 "The campaign's folder: closed/*/runs.csv, seeds/*/runs.csv, and arrivals.csv in "
                 "arrivals, capped, seeds and trace")
      ->required()
      ->type_name("DIR");
  app.add_option("--traces", flags->traces, "Folder with the traces that rows name")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option(
         "--decode-kernel", flags->kernels,
         "Runs of these decode kernels only (default: all): a device file holds one engine's "
         "linear layers")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--out", flags->out, "Folder for the raw rows: adds to check.csv and check.jsonl")
      ->type_name("DIR");
  app.footer(
      "The requests are those of the runs: same draws, same arrivals, same budgets.\n"
      "Example:\n"
      "  decant simulate check --device-file data/devices/h200.json --results results/h200 "
      "\\\n    --decode-kernel rows,flash");
  return {.app = &app, .run = [flags, command] { return RunCheck(*flags, command); }};
}

}  // namespace decant
