#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/kernel_flags.h"
#include "apps/overlap_flag.h"
#include "apps/row_files.h"
#include "bench/gates/precision.h"
#include "bench/kernel_bench.h"
#include "bench/text_table.h"
#include "cache/page_pool.h"
#include "engine/preset.h"

namespace decant {
namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;
constexpr int32_t kMaxLength = 1 << 17;

struct BenchKernelFlags {
  KernelFlags kernel{};
  std::vector<int32_t> lengths{};
  std::vector<uint64_t> mixed_seeds{};
  std::vector<int32_t> batches = {1, 8, 32, 64};
  std::vector<int32_t> chunks{};
  std::vector<int32_t> histories = {0, 3584};
  std::optional<int32_t> page_size{};
  std::vector<std::string> overlaps{};
};

/// What is named; where nothing is, a ladder of lengths and two mixed draws.
std::vector<KernelCase> MakeCases(const BenchKernelFlags& flags) {
  std::vector<int32_t> lengths = flags.lengths;
  std::vector<uint64_t> seeds = flags.mixed_seeds;
  if (lengths.empty() && seeds.empty() && flags.chunks.empty()) {
    lengths = {16, 64, 256, 517, 1024, 2048, 4096};
    seeds = {0, 1};
  }
  std::vector<KernelCase> cases;
  for (const int32_t batch : flags.batches) {
    for (const int32_t length : lengths) cases.push_back(UniformCase(length, batch));
    for (const uint64_t seed : seeds) cases.push_back(MixedCase(seed, batch));
  }
  for (const int32_t chunk : flags.chunks) {
    for (const int32_t history : flags.histories) cases.push_back(ChunkCase(chunk, history));
  }
  return cases;
}

Expected<KernelBenchOptions> ToOptions(const BenchKernelFlags& flags,
                                       const KernelSetting& setting) {
  if (flags.page_size) DECANT_RETURN_IF_ERROR(ValidatePageSize(*flags.page_size));
  KernelBenchOptions options{.shape = flags.kernel.shape,
                             .kernels = {},
                             .all_must_run = !flags.kernel.decode_kernels.empty(),
                             .cases = MakeCases(flags),
                             .repeats = flags.kernel.repeats,
                             .overlaps = ReadOverlaps(flags.overlaps),
                             .max_cache_bytes = setting.max_cache_bytes};
  for (const DecodeKernel kernel : setting.kernels) {
    options.kernels.push_back(
        {.kernel = kernel, .page_size = flags.page_size.value_or(PresetPageSize(kernel))});
  }
  return options;
}

const std::vector<std::string>& Columns() {
  static const std::vector<std::string> columns = {
      "device",   "kernel",          "overlap",   "dtype",        "heads",
      "kv_heads", "head_dim",        "page_size", "layers",       "batch",
      "lengths",  "tokens",          "repeats",   "us_per_layer", "us_min",
      "us_max",   "bytes_per_layer", "gb_per_s",  "floor_us",     "times_floor"};
  return columns;
}

std::vector<RowValue> ToRow(const KernelResult& result, const KernelFlags& flags,
                            const std::string& device) {
  const auto whole = [](int64_t value) { return RowValue(value); };
  const LayerTime& time = result.time;
  return {device,
          result.kernel,
          std::string(OverlapName(result.overlap)),
          std::string(DTypeName(result.dtype)),
          whole(flags.shape.heads),
          whole(flags.shape.kv_heads),
          whole(flags.shape.head_dim),
          whole(result.page_size),
          whole(flags.shape.layers),
          whole(result.batch),
          result.lengths,
          result.tokens,
          whole(flags.repeats),
          time.median * kMicro,
          time.least * kMicro,
          time.most * kMicro,
          static_cast<int64_t>(time.bytes),
          time.bytes_per_second() * kGiga,
          result.floor * kMicro,
          result.times_floor()};
}

std::string ToText(const KernelBenchReport& report) {
  TextTable table({"kernel", "overlap", "page", "rows", "lengths", "tokens", "us/layer", "least",
                   "most", "GB/s", "floor us", "x floor"});
  for (const KernelResult& result : report.results) {
    const LayerTime& time = result.time;
    table.AddRow(
        {result.kernel, std::string(OverlapName(result.overlap)),
         fmt::format("{}", result.page_size), fmt::format("{}", result.batch), result.lengths,
         fmt::format("{}", result.tokens), fmt::format("{:.2f}", time.median * kMicro),
         fmt::format("{:.2f}", time.least * kMicro), fmt::format("{:.2f}", time.most * kMicro),
         fmt::format("{:.1f}", time.bytes_per_second() * kGiga),
         fmt::format("{:.2f}", result.floor * kMicro),
         fmt::format("{:.2f}", result.times_floor())});
  }
  std::string text = report.backend + "\n" + table.ToString();
  for (const std::string& note : report.notes) text += "not run: " + note + "\n";
  text += fmt::format("\nfloor: K and V once a row at {:.1f} GB/s read from memory",
                      report.rates.bytes_per_second * kGiga);
  if (report.rates.operations_per_second > 0) {
    text += fmt::format("; of prompt chunks also operations at {:.0f} GFLOP/s",
                        report.rates.operations_per_second * kGiga);
  }
  return text + ", measured here just now\n";
}

Status BenchKernel(const BenchKernelFlags& flags, std::span<const char* const> command) {
  const RunHeader header = MakeRunHeader(command, 0);
  DECANT_ASSIGN_OR_RETURN(const KernelSetting setting,
                          ReadKernelFlags(flags.kernel, header.machine));
  DECANT_ASSIGN_OR_RETURN(const KernelBenchOptions options, ToOptions(flags, setting));
  DECANT_ASSIGN_OR_RETURN(RowFiles files,
                          RowFiles::Open(flags.kernel.out, "kernel", Columns(), header));
  const std::string device = DeviceName(setting.device);
  DECANT_ASSIGN_OR_RETURN(
      const KernelBenchReport report,
      RunKernelBench(setting.make_ops, options, [&](const KernelResult& result) {
        return files.Add(ToRow(result, flags.kernel, device));
      }));
  std::printf("%s", ToText(report).c_str());
  std::fflush(stdout);
  return files.Close();
}

template <typename T>
CLI::Option* AddList(CLI::App& app, const char* name, std::vector<T>& values, const char* help) {
  return app.add_option(name, values, help)->delimiter(',')->type_name("N,...");
}

}  // namespace

Command AddBenchKernelCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app =
      *parent.add_subcommand("kernel", "Time attention by itself: each decode kernel, per layer");
  const auto flags = std::make_shared<BenchKernelFlags>();
  AddKernelFlags(app, flags->kernel,
                 "Folder for the raw rows: adds to kernel.csv and kernel.jsonl, a row a case");
  AddList(app, "--lengths", flags->lengths,
          "Decode tokens of rows with contexts all so long; a list is run in turn")
      ->check(CLI::Range(1, kMaxLength));
  AddList(app, "--mixed-seeds", flags->mixed_seeds,
          "Decode tokens of rows with contexts of 16, 64, 256, 1024 or 4096 and up to 160 more, "
          "drawn as Python's random.Random(SEED) does");
  AddList(app, "--batches", flags->batches, "Rows of each")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddList(app, "--chunk", flags->chunks, "Prompt chunks of so many tokens, by each prompt kernel")
      ->check(CLI::Range(2, kMaxLength));
  AddList(app, "--history", flags->histories, "Positions before each chunk")
      ->check(CLI::Range(0, kMaxLength))
      ->capture_default_str();
  app.add_option("--page-size", flags->page_size,
                 "Slots a page (default: 64; 256 for flash, which takes multiples of 256)")
      ->type_name("SLOTS");
  AddOverlapFlag(app, flags->overlaps);
  app.footer(
      "Without --lengths, --mixed-seeds and --chunk: lengths 16 to 4096 and the draws 0 and 1.\n"
      "Examples:\n"
      "  decant bench kernel --layers 4 --lengths 517,4096 --batches 8,32\n"
      "  decant bench kernel --device cuda --decode-kernel rows,flash --mixed-seeds 0,1 \\\n"
      "    --batches 32 --out results/h200\n"
      "  decant bench kernel --device cuda --page-size 256 --lengths 4096    # pages alike\n"
      "  decant bench kernel --chunk 512 --history 0,3584\n"
      "  decant bench kernel --device cuda --overlap off --mixed-seeds 0\n"
      "A time is that of all layers over their number. The floor is the bytes of K and V, each\n"
      "position once a row, over the memory bandwidth measured at the start.");
  return {.app = &app, .run = [flags, command] { return BenchKernel(*flags, command); }};
}

}  // namespace decant
