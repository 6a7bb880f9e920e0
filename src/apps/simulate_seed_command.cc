#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/row_files.h"
#include "apps/simulate_command.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "bench/quantile.h"
#include "bench/text_table.h"
#include "sim/device_file.h"
#include "sim/seed_figures.h"
#include "sim/seed_fit.h"

namespace decant {
namespace {

/// How far a figure may be off to count as met.
constexpr double kMet = 0.06;

struct SeedTablesFlags {
  std::string device = "data/devices/a10-seed.json";
  int32_t draws = 100;
  int32_t threads = 0;
  std::string out{};
};

struct FitSeedFlags {
  double instrumentation_percent = 0;
  std::string out{};
};

Status FitSeed(const FitSeedFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const SeedFit fit, FitSeedDevice(flags.instrumentation_percent / 100));
  TextTable table({"fitted to", "published ms", "model ms", "error"});
  for (const SeedFitRow& row : fit.rows) {
    table.AddRow({row.what, fmt::format("{:.3f}", row.published), fmt::format("{:.3f}", row.model),
                  fmt::format("{:+.1f}%", (row.model / row.published - 1) * 100)});
  }
  std::printf(
      "%s\na step with flash takes %.3f ms beyond its layers' attention: the steps differ by "
      "less than the layers do\n",
      table.ToString().c_str(), fit.flash_rest * 1e3);
  if (flags.out.empty()) return Status();
  return WriteDevice(fit.device, "published step and layer times of the seed's engine, only",
                     flags.out);
}

/// The values of all figures over all draws, [figures][draws], computed on several threads.
class Draws {
 public:
  Draws(const StepTimeParameters& device, int32_t draws)
      : device_(device), values_(SeedFigures().size(), std::vector<double>(draws)) {}

  Status Run(int32_t threads) {
    Progress progress("simulating", std::ssize(values_) * std::ssize(values_[0]), "runs");
    std::vector<std::jthread> workers;
    workers.reserve(static_cast<size_t>(threads));
    for (int32_t i = 0; i < threads; ++i) workers.emplace_back([&] { Work(progress); });
    workers.clear();
    if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
    return fault_;
  }

  const std::vector<double>& Of(size_t figure) const { return values_[figure]; }

 private:
  void Work(Progress& progress) {
    const size_t draws = values_[0].size();
    while (!InterruptRequested()) {
      const size_t next = next_++;
      if (next >= values_.size() * draws) return;
      const size_t figure = next / draws;
      const size_t draw = next % draws;
      const Expected<double> value = SimulateSeedFigure(SeedFigures()[figure], device_, draw);
      if (!value.ok()) {
        const std::lock_guard lock(mutex_);
        fault_ = value.status();
        return;
      }
      values_[figure][draw] = *value;
      progress.Advance(1);
    }
  }

  const StepTimeParameters& device_;
  std::vector<std::vector<double>> values_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  Status fault_;
};

/// A line of the table: the figure, and what the draws make of it.
void AddFigure(const std::string& name, double published, const std::vector<double>& values,
               TextTable& table) {
  const auto below =
      std::ranges::count_if(values, [published](double value) { return value < published; });
  const auto text = [](double value) { return fmt::format("{:.2f}", value); };
  const double median = Median(values);
  table.AddRow({name, text(published), text(median),
                fmt::format("{:+.1f}%", (median / published - 1) * 100), text(Quantile(values, 0)),
                text(Quantile(values, 0.1)), text(Quantile(values, 0.9)), text(Quantile(values, 1)),
                fmt::format("{}%", 100 * below / std::ssize(values))});
}

/// How many draws are within kMet of every published figure: of the walls, the served rates, both.
int Meeting(const Draws& draws, int32_t count, bool walls, bool served) {
  int meeting = 0;
  for (int32_t draw = 0; draw < count; ++draw) {
    bool meets = true;
    for (size_t i = 0; i < SeedFigures().size(); ++i) {
      const SeedFigure& figure = SeedFigures()[i];
      if (figure.quantity == SeedQuantity::kQueue) continue;
      if (!(figure.quantity == SeedQuantity::kWall ? walls : served)) continue;
      const double value = draws.Of(i)[static_cast<size_t>(draw)];
      meets = meets && std::abs(value / figure.published - 1) <= kMet;
    }
    meeting += meets ? 1 : 0;
  }
  return meeting;
}

Status SeedTables(const SeedTablesFlags& flags, std::span<const char* const> command) {
  DECANT_ASSIGN_OR_RETURN(const StepTimeParameters device, ReadDevice(flags.device));
  Draws draws(device, flags.draws);
  const int32_t cores = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  DECANT_RETURN_IF_ERROR(draws.Run(flags.threads > 0 ? flags.threads : cores));
  DECANT_ASSIGN_OR_RETURN(RowFiles files,
                          RowFiles::Open(flags.out, "seed_tables",
                                         {"device", "figure", "published", "draw", "predicted"},
                                         MakeRunHeader(command, 0)));
  TextTable table({"figure", "seed", "predicted", "error", "least", "10%", "90%", "most",
                   "draws below seed's"});
  for (size_t i = 0; i < SeedFigures().size(); ++i) {
    const SeedFigure& figure = SeedFigures()[i];
    const std::vector<double>& values = draws.Of(i);
    AddFigure(figure.name, figure.published, values, table);
    for (size_t draw = 0; draw < values.size(); ++draw) {
      DECANT_RETURN_IF_ERROR(files.Add(std::vector<RowValue>{
          device.device, figure.name, figure.published, static_cast<int64_t>(draw), values[draw]}));
    }
  }
  for (const SeedRatio& ratio : SeedRatios()) {
    std::vector<double> values(static_cast<size_t>(flags.draws));
    for (size_t draw = 0; draw < values.size(); ++draw) {
      values[draw] = draws.Of(ratio.over)[draw] / draws.Of(ratio.under)[draw];
    }
    AddFigure(ratio.name, ratio.published(), values, table);
  }
  std::printf(
      "%s\npredicted: the median of %d draws of requests and arrivals; the seed's own draw is not "
      "known\n%d of %d draws meet all closed walls within %.0f%%, %d all served rates, %d all of "
      "both\n",
      table.ToString().c_str(), flags.draws, Meeting(draws, flags.draws, true, false), flags.draws,
      kMet * 100, Meeting(draws, flags.draws, false, true),
      Meeting(draws, flags.draws, true, true));
  return files.Close();
}

}  // namespace

Command AddSimulateFitSeedCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand(
      "fit-seed", "Fit a device file to the published step times of the engine on an A10");
  const auto flags = std::make_shared<FitSeedFlags>();
  app.add_option("--instrumentation", flags->instrumentation_percent,
                 "Take so much off the published steps first: they were timed with synchronisation "
                 "that added about 5% to the wall")
      ->check(CLI::Range(0.0, 50.0))
      ->capture_default_str()
      ->type_name("PERCENT");
  app.add_option("--out", flags->out, "Where the device file goes (default: print the fit only)")
      ->type_name("FILE");
  app.footer(
      "Served rates, walls and waits are not fitted to: decant simulate seed-tables predicts "
      "them.\n"
      "Example:\n"
      "  decant simulate fit-seed --out data/devices/a10-seed.json");
  return {.app = &app, .run = [flags] { return FitSeed(*flags); }};
}

Command AddSimulateSeedTablesCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "seed-tables", "Predict the published served rates, walls and waits from step times alone");
  const auto flags = std::make_shared<SeedTablesFlags>();
  app.add_option("--device-file", flags->device, "Step times of the A10")
      ->capture_default_str()
      ->type_name("FILE");
  app.add_option("--draws", flags->draws, "Draws of requests and arrivals, seeds 0 and up")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--threads", flags->threads, "0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--out", flags->out,
                 "Folder for the raw rows: adds to seed_tables.csv and seed_tables.jsonl, a row a "
                 "draw of a figure")
      ->type_name("DIR");
  app.footer(
      "The published draw of requests is not ours, so each figure stands beside its spread over "
      "draws.\n"
      "Example:\n"
      "  decant simulate seed-tables --out results/sim");
  return {.app = &app, .run = [flags, command] { return SeedTables(*flags, command); }};
}

}  // namespace decant
