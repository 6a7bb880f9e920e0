#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/chunk_name.h"
#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/row_files.h"
#include "apps/workload_flags.h"
#include "base/log.h"
#include "base/progress.h"
#include "bench/invariance_price.h"
#include "bench/prompt_alphabet.h"
#include "bench/quantile.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMostRate = 1e6;  // requests a second

struct InvarianceFlags {
  EngineFlags engine{};
  WorkloadFlags workload{};
  int32_t batch_size = 32;
  double rate = 24;
  int32_t requests = 200;
  int32_t runs = 3;
  int32_t pairs = 3;
  std::string out{};
};

/// One of the two sides of a pair.
struct Path {
  std::string_view name;
  LinearLayers linear;
};

/// The invariant path first.
std::array<Path, 2> PathsOf(const Device& device) {
  if (device.kind == DeviceKind::kCpu) {
    return {
        {{"invariant", LinearLayers::kInvariant}, {"invariant again", LinearLayers::kInvariant}}};
  }
  return {{{"invariant", LinearLayers::kInvariant}, {"fastest", LinearLayers::kLibrary}}};
}

const std::vector<std::string>& Columns() {
  static const std::vector<std::string> columns = {
      "device",    "model",        "workload",   "seed", "decode_kernel", "page_size",
      "max_batch", "chunk_tokens", "batch_size", "rate", "requests",      "pair",
      "measure",   "path",         "value",      "unit", "ratio"};
  return columns;
}

/// Measures both paths pair by pair, each time with an engine of its own: two would share memory
/// that one has to itself when it serves.
class InvarianceBench {
 public:
  InvarianceBench(const InvarianceFlags& flags, const NamedWorkload& named, EngineOptions options,
                  RowFiles files)
      : flags_(flags),
        named_(named),
        options_(std::move(options)),
        paths_(PathsOf(options_.device)),
        files_(std::move(files)) {}

  Status Run() {
    for (int32_t pair = 1; pair <= flags_.pairs; ++pair) {
      std::array<PathFigures, 2> figures{};
      // Each path goes first in every second pair, so that a machine that warms up favours none.
      for (const size_t turn : {0U, 1U}) {
        const size_t side = (turn + static_cast<size_t>(pair) + 1) % 2;
        DECANT_ASSIGN_OR_RETURN(figures[side], Measure(paths_[side], pair));
      }
      DECANT_RETURN_IF_ERROR(AddPair(pair, figures));
      pairs_.push_back(figures);
    }
    Print();
    return files_.Close();
  }

 private:
  Expected<PathFigures> Measure(const Path& path, int32_t pair) {
    EngineOptions options = options_;
    options.linear = path.linear;
    DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(options));
    model_ = served->config().name;
    const std::vector<Token> alphabet = PromptAlphabet(served->tokenizer());
    PriceLoad load{.closed = MakeWorkload(named_.name, named_.options, flags_.batch_size, alphabet),
                   .arrivals = {},
                   .runs = flags_.runs};
    load.arrivals =
        PoissonTraffic(MakeWorkload(named_.name, named_.options, flags_.requests, alphabet),
                       named_.options.seed, flags_.rate);
    Progress progress(fmt::format("pair {} of {}, {}", pair, flags_.pairs, path.name),
                      load.closed.budget_tokens() * (flags_.runs + 1) + flags_.requests,
                      "tokens and requests");
    const auto advance = [&] { progress.Advance(1); };
    DECANT_ASSIGN_OR_RETURN(const PathFigures figures,
                            MeasurePath(served->engine(), load, advance, advance));
    progress.Finish();
    return figures;
  }

  Status AddPair(int32_t pair, const std::array<PathFigures, 2>& figures) {
    for (size_t i = 0; i < kPriceMeasures; ++i) {
      const auto measure = static_cast<PriceMeasure>(i);
      const PriceMeasureName name = NameOf(measure);
      const double ratio = PriceRatio(measure, figures[0], figures[1]);
      for (size_t side = 0; side < paths_.size(); ++side) {
        const std::vector<RowValue> row = {DeviceName(options_.device),
                                           model_,
                                           named_.name,
                                           static_cast<int64_t>(named_.options.seed),
                                           std::string(DecodeKernelName(options_.decode_kernel)),
                                           int64_t{options_.page_size},
                                           int64_t{options_.max_batch},
                                           ChunkName(options_),
                                           int64_t{flags_.batch_size},
                                           flags_.rate,
                                           int64_t{flags_.requests},
                                           int64_t{pair},
                                           std::string(name.name),
                                           std::string(paths_[side].name),
                                           figures[side][i],
                                           std::string(name.unit),
                                           ratio};
        DECANT_RETURN_IF_ERROR(files_.Add(row));
      }
    }
    return Status();
  }

  void Print() const {
    TextTable table({"measure", "unit", std::string(paths_[0].name), std::string(paths_[1].name),
                     "ratio", "least", "most"});
    for (size_t i = 0; i < kPriceMeasures; ++i) {
      const auto measure = static_cast<PriceMeasure>(i);
      std::array<std::vector<double>, 2> values;
      std::vector<double> ratios;
      for (const std::array<PathFigures, 2>& pair : pairs_) {
        for (const size_t side : {0U, 1U}) values[side].push_back(pair[side][i]);
        ratios.push_back(PriceRatio(measure, pair[0], pair[1]));
      }
      const auto [least, most] = std::ranges::minmax_element(ratios);
      const PriceMeasureName name = NameOf(measure);
      table.AddRow({std::string(name.name), std::string(name.unit),
                    fmt::format("{:.3f}", Median(values[0])),
                    fmt::format("{:.3f}", Median(values[1])), fmt::format("{:.3f}", Median(ratios)),
                    fmt::format("{:.3f}", *least), fmt::format("{:.3f}", *most)});
    }
    std::printf("\n%s", table.ToString().c_str());
    std::printf("%s",
                options_.device.kind == DeviceKind::kCpu
                    ? "The CPU's linear layers are invariant anyway: both sides of a pair are "
                      "the same path, and\nthe ratios show what two measurements differ by, "
                      "not a price.\n"
                    : "A ratio above 1 is the price of the same bits in every batch; medians "
                      "over the pairs.\n");
    std::fflush(stdout);
  }

  const InvarianceFlags& flags_;
  const NamedWorkload& named_;
  const EngineOptions options_;
  const std::array<Path, 2> paths_;
  RowFiles files_;
  std::string model_;
  std::vector<std::array<PathFigures, 2>> pairs_;
};

Status BenchInvariance(const InvarianceFlags& flags, std::span<const char* const> command) {
  if (flags.engine.linear) {
    return InvalidArgument("--linear is not for this command, which runs both kinds in turn");
  }
  if (!(flags.rate > 0 && flags.rate <= kMostRate)) {
    return InvalidArgument("--rate is {}; allowed: above 0, at most {}", flags.rate, kMostRate);
  }
  DECANT_ASSIGN_OR_RETURN(const NamedWorkload named, ReadWorkload(flags.workload));
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags.engine));
  if (options.decode_kernel != DecodeKernel::kSplit) {
    return InvalidArgument(
        "the decode kernel is {}; allowed here: split, the one whose answers do not depend on the "
        "batch",
        DecodeKernelName(options.decode_kernel));
  }
  // Lengths do not depend on the model's tokens.
  const std::vector<Token> alphabet = {0};
  const Workload arrivals = MakeWorkload(named.name, named.options, flags.requests, alphabet);
  const int64_t steps = arrivals.budget_tokens() + arrivals.prompt_tokens() + flags.requests;
  options.step_history = std::max(options.step_history, static_cast<size_t>(steps));
  const RunHeader header = MakeRunHeader(command, named.options.seed);
  DECANT_ASSIGN_OR_RETURN(RowFiles files,
                          RowFiles::Open(flags.out, "invariance", Columns(), header));
  return InvarianceBench(flags, named, std::move(options), std::move(files)).Run();
}

}  // namespace

Command AddBenchInvarianceCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "invariance", "What the same bits in every batch cost: the invariant and the fastest path");
  const auto flags = std::make_shared<InvarianceFlags>();
  AddEngineFlags(app, flags->engine, EngineFlagSet::kAll);
  AddWorkloadFlags(app, flags->workload);
  const auto number = [&app](const char* name, int32_t& value, int32_t least,
                             const std::string& help) {
    app.add_option(name, value, help)
        ->capture_default_str()
        ->check(CLI::Range(least, 1 << 20))
        ->type_name("N");
  };
  number("--batch-size", flags->batch_size, 1, "Requests of the closed run");
  app.add_option("--rate", flags->rate, "Requests a second of the arrivals")
      ->capture_default_str()
      ->type_name("R");
  number("--requests", flags->requests, 2, "Arrivals");
  number("--runs", flags->runs, 1, "Closed runs of each path that count, after one that does not");
  number("--pairs", flags->pairs, 1,
         "How often both paths are measured; ratios are taken in pairs");
  app.add_option("--out", flags->out,
                 "Folder for the raw rows: adds to invariance.csv and invariance.jsonl, a row a "
                 "measurement and path")
      ->type_name("DIR");
  app.footer(
      "Examples:\n"
      "  decant bench invariance --random-weights 0 --device cuda --out results/h200/invariance\n"
      "  decant bench invariance --model M.gguf --rate 60 --requests 400 --pairs 5\n"
      "  decant bench invariance --model M.gguf --scale 0.05 --requests 20 --rate 4   # a CPU\n"
      "On CUDA the paths are the linear layers --linear invariant and cublas, with the decode\n"
      "kernel split on both sides. The CPU's linear layers are invariant anyway: there the\n"
      "command measures them twice, and says so.\n"
      "Ratios above 1 are what invariance costs. Each path loads an engine of its own, and paths\n"
      "take turns at going first.");
  return {.app = &app, .run = [flags, command] { return BenchInvariance(*flags, command); }};
}

}  // namespace decant
