#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "apps/command.h"
#include "apps/make_ops.h"
#include "apps/overlap_flag.h"
#include "apps/row_files.h"
#include "bench/gates/precision.h"
#include "bench/linear_bench.h"
#include "bench/text_table.h"
#include "engine/preset.h"
#include "model/random_model.h"

namespace decant {
namespace {

constexpr double kMicro = 1e6;
constexpr double kTera = 1e-12;

struct BenchLinearFlags {
  std::string device = "auto";
  std::string dtype = "auto";
  int32_t threads = 0;
  std::string shape = "qwen2.5-1.5b";
  int32_t layers = 28;
  std::vector<std::string> products = {"qkv", "o", "gate_up", "down", "head"};
  std::vector<std::string> linears{};
  std::vector<int32_t> tokens = {1, 8, 32, 64, 128, 256, 544, 1024, 2048};
  int32_t repeats = 10;
  std::vector<std::string> overlaps{};
  std::string out{};
};

std::string_view LinearName(LinearLayers linear, const Device& device) {
  if (device.kind == DeviceKind::kCpu) return "onednn";
  return linear == LinearLayers::kLibrary ? "cublas" : "invariant";
}

Expected<LinearBenchOptions> ToOptions(const BenchLinearFlags& flags, const Device& device) {
  DECANT_ASSIGN_OR_RETURN(const ModelConfig config, FindShape(flags.shape));
  LinearBenchOptions options{
      .tokens = flags.tokens, .repeats = flags.repeats, .overlaps = ReadOverlaps(flags.overlaps)};
  for (const LinearProduct& product : ProductsOf(config.shape, flags.layers)) {
    if (std::ranges::find(flags.products, product.name) != flags.products.end()) {
      options.products.push_back(product);
    }
  }
  for (const std::string& name : flags.linears) {
    DECANT_ASSIGN_OR_RETURN(const LinearLayers linear, FindLinearLayers(name, device));
    options.linears.push_back(linear);
  }
  if (!options.linears.empty()) return options;
  options.linears = {LinearLayers::kLibrary};
  if (device.kind == DeviceKind::kCuda) options.linears.push_back(LinearLayers::kInvariant);
  return options;
}

const std::vector<std::string>& Columns() {
  static const std::vector<std::string> columns = {
      "device", "linear",   "overlap",     "dtype",    "shape",      "product", "rows",
      "cols",   "weights",  "tokens",      "repeats",  "us",         "us_min",  "us_max",
      "bytes",  "tb_per_s", "tflop_per_s", "floor_us", "times_floor"};
  return columns;
}

std::vector<RowValue> ToRow(const LinearResult& result, const BenchLinearFlags& flags,
                            const Device& device) {
  const auto whole = [](int64_t value) { return RowValue(value); };
  return {DeviceName(device),
          std::string(LinearName(result.linear, device)),
          std::string(OverlapName(result.overlap)),
          std::string(DTypeName(result.dtype)),
          flags.shape,
          result.product.name,
          whole(result.product.rows),
          whole(result.product.cols),
          whole(result.product.weights),
          whole(result.tokens),
          whole(flags.repeats),
          result.median * kMicro,
          result.least * kMicro,
          result.most * kMicro,
          static_cast<int64_t>(result.bytes),
          result.bytes / result.median * kTera,
          result.operations / result.median * kTera,
          result.floor * kMicro,
          result.times_floor()};
}

std::string ToText(const LinearBenchReport& report, const Device& device) {
  TextTable table({"linear", "overlap", "product", "rows", "cols", "tokens", "us", "least", "most",
                   "TB/s", "TFLOP/s", "floor us", "x floor", "of cublas"});
  std::map<std::tuple<std::string, int32_t, TimedOverlap>, double> yardstick;
  for (const LinearResult& result : report.results) {
    const std::tuple key(result.product.name, result.tokens, result.overlap);
    std::string ratio;
    if (result.linear == LinearLayers::kLibrary) {
      yardstick[key] = result.median;
    } else if (yardstick.contains(key)) {
      ratio = fmt::format("{:.2f}", result.median / yardstick[key]);
    }
    table.AddRow({std::string(LinearName(result.linear, device)),
                  std::string(OverlapName(result.overlap)), result.product.name,
                  fmt::format("{}", result.product.rows), fmt::format("{}", result.product.cols),
                  fmt::format("{}", result.tokens), fmt::format("{:.2f}", result.median * kMicro),
                  fmt::format("{:.2f}", result.least * kMicro),
                  fmt::format("{:.2f}", result.most * kMicro),
                  fmt::format("{:.2f}", result.bytes / result.median * kTera),
                  fmt::format("{:.1f}", result.operations / result.median * kTera),
                  fmt::format("{:.2f}", result.floor * kMicro),
                  fmt::format("{:.2f}", result.times_floor()), ratio});
  }
  return fmt::format(
      "{}\n{}\nfloor: weight, input and output once, at {:.2f} TB/s read from memory, or "
      "operations "
      "at {:.0f} TFLOP/s, both measured here just now\n",
      report.backend, table.ToString(), report.rates.bytes_per_second * kTera,
      report.rates.operations_per_second * kTera);
}

Status BenchLinear(const BenchLinearFlags& flags, std::span<const char* const> command) {
  const RunHeader header = MakeRunHeader(command, 0);
  DECANT_ASSIGN_OR_RETURN(const Device device, FindDevice(flags.device));
  DECANT_ASSIGN_OR_RETURN(const ComputeType type, FindComputeType(flags.dtype));
  DECANT_ASSIGN_OR_RETURN(const LinearBenchOptions options, ToOptions(flags, device));
  DECANT_ASSIGN_OR_RETURN(RowFiles files, RowFiles::Open(flags.out, "linear", Columns(), header));
  DECANT_ASSIGN_OR_RETURN(const LinearBenchReport report,
                          RunLinearBench(MakeOpsFactory(device, type, flags.threads), options,
                                         [&](const LinearResult& result) {
                                           return files.Add(ToRow(result, flags, device));
                                         }));
  std::printf("%s", ToText(report, device).c_str());
  std::fflush(stdout);
  return files.Close();
}

}  // namespace

Command AddBenchLinearCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "linear", "Time linear layers by themselves: each kind, by product and number of tokens");
  const auto flags = std::make_shared<BenchLinearFlags>();
  const auto text = [&app](const char* name, std::string& value, const std::string& help,
                           const char* type) {
    app.add_option(name, value, help)->capture_default_str()->type_name(type);
  };
  text("--device", flags->device,
       "Where it computes: cpu, cuda, cuda:N, or auto (the first GPU, if there is one)", "DEVICE");
  text("--dtype", flags->dtype, "Type on CUDA: fp16, bf16 or auto (fp16)", "TYPE");
  text("--shape", flags->shape, fmt::format("Whose products: {}", fmt::join(ShapeNames(), ", ")),
       "NAME");
  app.add_option("--threads", flags->threads, "Threads that compute; 0: one for each processor")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--layers", flags->layers,
                 "Weights of each kind, which run one after another; a time is their mean")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--products", flags->products, "Which products")
      ->delimiter(',')
      ->check(CLI::IsMember({"qkv", "o", "gate_up", "down", "head"}))
      ->capture_default_str()
      ->type_name("NAME,...");
  app.add_option("--linear", flags->linears,
                 "Kinds of linear layers on CUDA: cublas, invariant (default: both)")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--tokens", flags->tokens, "Numbers of tokens; the head takes up to 256")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->type_name("N,...");
  app.add_option("--repeats", flags->repeats,
                 "Runs of all weights that count, after one that does not; the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  AddOverlapFlag(app, flags->overlaps);
  app.add_option("--out", flags->out,
                 "Folder for the raw rows: adds to linear.csv and linear.jsonl, a row a case")
      ->type_name("DIR");
  app.footer(
      "Products add to fp32. On CUDA all weights of a kind run in one graph.\n"
      "Examples:\n"
      "  decant bench linear --device cuda --out results/h200/linear\n"
      "  decant bench linear --device cuda --overlap off --tokens 32\n"
      "  decant bench linear --device cuda --shape smollm2-135m --layers 30 --tokens 1,32\n"
      "  decant bench linear --layers 2 --tokens 1,32 --products gate_up");
  return {.app = &app, .run = [flags, command] { return BenchLinear(*flags, command); }};
}

}  // namespace decant
