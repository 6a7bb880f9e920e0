#include "sim/seed_fit.h"

#include <algorithm>
#include <utility>

#include "bench/kernel_bench.h"
#include "bench/quantile.h"
#include "sim/named_workload.h"
#include "sim/simulation.h"

namespace decant {
namespace {

// Published: step times of 64 mixed requests through 32 rows, with instrumentation; attention by
// layer from a bench of its own.
constexpr double kDecodeRows64 = 30.9e-3;
constexpr double kDecodeRows64Older = kDecodeRows64 + kOlderVersionSeconds;
constexpr double kDecodeRows256 = 30.3e-3;
constexpr double kDecodeFlash = 24.0e-3;
constexpr double kLoadedFlash = 43.9e-3;
constexpr double kLayerRowsMixed = 0.347e-3;
constexpr double kLayerRows517 = 0.108e-3;
constexpr double kLayerFlashMixed = 0.1e-3;  // "under"
constexpr int32_t kUniformLength = 517;
constexpr int32_t kRows = 32;
constexpr int32_t kRequests = 64;
constexpr int32_t kWidePage = 256;

// Qwen2.5 1.5B in 16 bits on an A10: the model's shape, and the data sheet's bandwidth.
constexpr int32_t kLayers = 28;
constexpr int32_t kHeads = 12;
constexpr int32_t kHeadDim = 128;
constexpr double kParameters = 1.54e9;       // read by each step
constexpr double kLayerParameters = 1.31e9;  // multiplied with each token
constexpr double kPositionBytes = 28672;     // K and V of all layers
constexpr double kBytesPerSecond = 600e9;
constexpr double kMostOperationsPerSecond = 125e12;

/// The steps of the published step timing, in our draw of it.
Expected<std::vector<StepWork>> Steps(const StepTimeParameters& device) {
  DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                          StepTimeModel::Create(device, SimulatedKernel::kFlash, kWidePage));
  DECANT_ASSIGN_OR_RETURN(const Workload workload, NamedWorkloadOf("mixed seed 0", kRequests));
  DECANT_ASSIGN_OR_RETURN(
      const auto engine, Simulate({.max_batch = kRows,
                                   .num_pages = static_cast<int32_t>(device.pool_slots / kWidePage),
                                   .page_size = kWidePage,
                                   .keep_steps = true},
                                  model, RequestsOf(workload, {})));
  std::vector<StepWork> works;
  for (const SimulatedStep& step : engine->steps()) works.push_back(step.work);
  return works;
}

/// The median of pure decode or of loaded steps.
Expected<double> MedianStep(const StepTimeParameters& device, const std::vector<StepWork>& works,
                            SimulatedKernel kernel, int32_t page_size, bool loaded) {
  DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                          StepTimeModel::Create(device, kernel, page_size));
  std::vector<double> seconds;
  for (const StepWork& work : works) {
    if ((work.prompt_tokens > 0) != loaded) continue;
    const StepTime time = model.Of(work);
    seconds.push_back(time.host + time.device());
  }
  return Median(seconds);
}

/// Work of linear layers and of prompt attention at one rate of operations.
void SetOperationRate(double operations_per_second, StepTimeParameters& device) {
  const double weights = kParameters * 2 / kBytesPerSecond;
  const double token = kLayerParameters * 2 / operations_per_second;
  const int32_t crossing = std::max(2, static_cast<int32_t>(weights / token));
  device.linear = {{.tokens = 1, .seconds = weights},
                   {.tokens = crossing, .seconds = weights},
                   {.tokens = crossing * 2, .seconds = weights + token * crossing}};
  device.prompt_pair_seconds = 4.0 * kHeads * kHeadDim * kLayers / operations_per_second;
}

/// Attention by layer, from the figures of layers.
void FitAttention(StepTimeParameters& device) {
  const std::vector<int32_t> mix = MixedLengths(0, kRows);
  const int32_t longest = *std::ranges::max_element(mix);
  double positions = 0;
  for (const int32_t length : mix) positions += length;
  const double slope = (kLayerRowsMixed - kLayerRows517) / (longest - kUniformLength);
  DecodeAttentionTime rows{.kernel = SimulatedKernel::kRows};
  rows.longest_seconds = slope * kLayers;
  rows.step_seconds = (kLayerRows517 - slope * kUniformLength) * kLayers;
  DecodeAttentionTime flash{.kernel = SimulatedKernel::kFlash};
  flash.position_seconds = kPositionBytes / kBytesPerSecond;
  flash.step_seconds =
      std::max(0.0, kLayerFlashMixed * kLayers - flash.position_seconds * positions);
  device.decode = {rows, flash};
}

double LayerMilliseconds(const StepTimeParameters& device, SimulatedKernel kernel,
                         const std::vector<int32_t>& lengths) {
  StepWork work{.rows = kRows, .decode_tokens = kRows};
  for (const int32_t length : lengths) {
    work.longest_decode_context = std::max(work.longest_decode_context, length);
    work.decode_positions += length;
  }
  work.decode_table_slots = work.longest_decode_context;
  const double seconds =
      StepTimeModel::Create(device, kernel, kWidePage).value().Of(work).decode_attention;
  return seconds / kLayers * 1e3;
}

Status AddRows(const std::vector<StepWork>& works, double longer, SeedFit& fit) {
  const auto step = [&](const char* what, double published, SimulatedKernel kernel,
                        int32_t page_size, bool loaded, double more) -> Status {
    DECANT_ASSIGN_OR_RETURN(const double seconds,
                            MedianStep(fit.device, works, kernel, page_size, loaded));
    fit.rows.push_back(
        {.what = what, .published = published * 1e3, .model = (seconds + more) * longer * 1e3});
    return Status();
  };
  const SimulatedKernel rows = SimulatedKernel::kRows;
  const SimulatedKernel flash = SimulatedKernel::kFlash;
  DECANT_RETURN_IF_ERROR(step("pure decode step, rows, pages of 64, older version",
                              kDecodeRows64Older, rows, 64, false, kOlderVersionSeconds));
  DECANT_RETURN_IF_ERROR(
      step("pure decode step, rows, pages of 64", kDecodeRows64, rows, 64, false, 0));
  DECANT_RETURN_IF_ERROR(
      step("pure decode step, rows, pages of 256", kDecodeRows256, rows, 256, false, 0));
  DECANT_RETURN_IF_ERROR(
      step("pure decode step, flash, pages of 256", kDecodeFlash, flash, 256, false, 0));
  DECANT_RETURN_IF_ERROR(
      step("loaded step, flash, pages of 256", kLoadedFlash, flash, 256, true, 0));
  const std::vector<int32_t> uniform(kRows, kUniformLength);
  const std::vector<int32_t> mix = MixedLengths(0, kRows);
  fit.rows.push_back({.what = "attention of a layer, rows, mixed",
                      .published = kLayerRowsMixed * 1e3,
                      .model = LayerMilliseconds(fit.device, rows, mix)});
  fit.rows.push_back({.what = "attention of a layer, rows, 517 positions",
                      .published = kLayerRows517 * 1e3,
                      .model = LayerMilliseconds(fit.device, rows, uniform)});
  fit.rows.push_back(
      {.what = "attention of a layer, flash, mixed (published: under)",
       .published = kLayerFlashMixed * 1e3,
       .model = LayerMilliseconds(fit.device, flash, mix) - fit.flash_rest / kLayers * 1e3});
  return Status();
}

}  // namespace

Expected<SeedFit> FitSeedDevice(double instrumentation) {
  const double longer = 1 + instrumentation;
  SeedFit fit;
  StepTimeParameters& device = fit.device;
  device = {.device = "NVIDIA A10", .model = "Qwen2.5 1.5B", .one_step_in_flight = false};
  device.multiprocessors = 72;
  device.kv_heads = 2;
  device.pool_slots = int64_t{kRows} * 4608;  // what 32 of the longest requests reserve
  device.narrow_page_seconds = (kDecodeRows64 - kDecodeRows256) / longer;
  FitAttention(device);
  SetOperationRate(kMostOperationsPerSecond, device);
  DECANT_ASSIGN_OR_RETURN(const std::vector<StepWork> works, Steps(device));

  // The step without attention, from the step of `rows`.
  DECANT_ASSIGN_OR_RETURN(const double rows,
                          MedianStep(device, works, SimulatedKernel::kRows, kWidePage, false));
  device.step_seconds = std::max(0.0, kDecodeRows256 / longer - rows);
  // With it, the step of `flash` is shorter than published: the rest is no layer's.
  DECANT_ASSIGN_OR_RETURN(const double flash,
                          MedianStep(device, works, SimulatedKernel::kFlash, kWidePage, false));
  fit.flash_rest = std::max(0.0, kDecodeFlash / longer - flash);
  device.decode[1].step_seconds += fit.flash_rest;

  // The rate of operations, between a hundredth of the data sheet's and all of it: the loaded step
  // falls as it rises.
  double low = kMostOperationsPerSecond / 100;
  double high = kMostOperationsPerSecond;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    SetOperationRate(middle, device);
    DECANT_ASSIGN_OR_RETURN(const double loaded,
                            MedianStep(device, works, SimulatedKernel::kFlash, kWidePage, true));
    (loaded > kLoadedFlash / longer ? low : high) = middle;
  }
  DECANT_RETURN_IF_ERROR(AddRows(works, longer, fit));
  return fit;
}

}  // namespace decant
