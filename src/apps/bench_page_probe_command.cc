#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/kernel_flags.h"
#include "apps/row_files.h"
#include "bench/gates/page_probe.h"
#include "bench/text_table.h"

namespace decant {
namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e-9;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

struct PageProbeFlags {
  KernelFlags kernel{};
  std::vector<int32_t> page_sizes = {16, 32, 48, 64, 128, 256, 512};
  uint64_t mixed_seed = 0;
  int32_t batch = 32;
};

const std::vector<std::string>& Columns() {
  static const std::vector<std::string> columns = {
      "device",       "kernel",       "page_size", "outcome", "message", "largest_difference",
      "largest_ulps", "us_per_layer", "gb_per_s"};
  return columns;
}

std::vector<RowValue> ToRow(const PageProbeResult& result, const std::string& device) {
  return {device,
          result.kernel,
          int64_t{result.page_size},
          std::string(PageOutcomeName(result.outcome)),
          result.message,
          result.largest_difference.value_or(kMissing),
          result.largest_ulps.value_or(kMissing),
          result.time ? result.time->median * kMicro : kMissing,
          result.time ? result.time->bytes_per_second() * kGiga : kMissing};
}

std::string ToText(std::span<const PageProbeResult> results) {
  TextTable table({"kernel", "page", "outcome", "largest difference", "ulps", "us/layer", "GB/s"});
  std::string messages;
  const auto number = [](std::optional<double> value, auto format) {
    return value ? fmt::format(format, *value) : std::string("-");
  };
  for (const PageProbeResult& result : results) {
    std::optional<double> micros;
    std::optional<double> rate;
    if (result.time) {
      micros = result.time->median * kMicro;
      rate = result.time->bytes_per_second() * kGiga;
    }
    table.AddRow({result.kernel, fmt::format("{}", result.page_size),
                  std::string(PageOutcomeName(result.outcome)),
                  number(result.largest_difference, FMT_STRING("{:.2e}")),
                  number(result.largest_ulps, FMT_STRING("{:.2f}")),
                  number(micros, FMT_STRING("{:.2f}")), number(rate, FMT_STRING("{:.1f}"))});
    if (!result.message.empty()) {
      messages +=
          fmt::format("{}, pages of {}: {}\n", result.kernel, result.page_size, result.message);
    }
  }
  return table.ToString() + messages;
}

Status BenchPageProbe(const PageProbeFlags& flags, std::span<const char* const> command) {
  const RunHeader header = MakeRunHeader(command, flags.mixed_seed);
  DECANT_ASSIGN_OR_RETURN(const KernelSetting setting,
                          ReadKernelFlags(flags.kernel, header.machine));
  constexpr int32_t kChunk = 512;
  constexpr int32_t kHistory = 3584;
  const PageProbeOptions options{.shape = flags.kernel.shape,
                                 .kernels = setting.kernels,
                                 .page_sizes = flags.page_sizes,
                                 .decode_timed = MixedCase(flags.mixed_seed, flags.batch),
                                 .prompt_timed = ChunkCase(kChunk, kHistory),
                                 .repeats = flags.kernel.repeats,
                                 .max_cache_bytes = setting.max_cache_bytes};
  DECANT_ASSIGN_OR_RETURN(RowFiles files,
                          RowFiles::Open(flags.kernel.out, "page_probe", Columns(), header));
  const std::string device = DeviceName(setting.device);
  DECANT_ASSIGN_OR_RETURN(
      const std::vector<PageProbeResult> results,
      RunPageProbe(setting.make_ops, options, [&](const PageProbeResult& result) {
        return files.Add(ToRow(result, device));
      }));
  std::printf("%s", ToText(results).c_str());
  std::fflush(stdout);
  return files.Close();
}

}  // namespace

Command AddBenchPageProbeCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "page-probe",
      "Find which page sizes each attention kernel takes, and what it does with them");
  const auto flags = std::make_shared<PageProbeFlags>();
  AddKernelFlags(app, flags->kernel,
                 "Folder for the raw rows: adds to page_probe.csv and page_probe.jsonl, a row a "
                 "kernel and page size");
  app.add_option("--page-sizes", flags->page_sizes,
                 "Slots a page; any numbers, since a refusal is a result")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("N,...");
  app.add_option("--mixed-seed", flags->mixed_seed,
                 "Draw of the context lengths that decode kernels are timed on, as in bench kernel")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_option("--batch", flags->batch, "Rows of that draw")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  app.footer(
      "works: as right as gate kernel asks, with everything that must not be read poisoned.\n"
      "refused: the pool, the backend or the kernel says no, and why. wrong: it runs, and is off.\n"
      "Examples:\n"
      "  decant bench page-probe --layers 4\n"
      "  decant bench page-probe --device cuda --decode-kernel flash --page-sizes 64,128,256,512\n"
      "  decant bench page-probe --page-sizes 0,1,24,65536,65537 --batch 1 --layers 1");
  return {.app = &app, .run = [flags, command] { return BenchPageProbe(*flags, command); }};
}

}  // namespace decant
