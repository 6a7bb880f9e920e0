#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/kernel_bench.h"
#include "ops/ops_factory.h"

namespace decant {

/// What a kernel makes of a page size.
enum class PageOutcome {
  kWorks,    ///< As right as the kernel gate asks.
  kRefused,  ///< It said no, before anything ran.
  kWrong,    ///< It ran, and its output is off.
};

/// "works", "refused", "wrong".
std::string_view PageOutcomeName(PageOutcome outcome);

struct PageProbeResult {
  std::string kernel{};  ///< "rows", "split", "flash" or "prompt".
  int32_t page_size = 0;
  PageOutcome outcome = PageOutcome::kWorks;
  std::string message{};  ///< The refusal with its kind, how it is wrong, or why it was not timed.
  std::optional<double> largest_difference{};  ///< From plain attention, where it ran.
  std::optional<double> largest_ulps{};        ///< In units in the last place of the storage type.
  std::optional<LayerTime> time{};             ///< Where it works.
};

struct PageProbeOptions {
  KernelShape shape{};
  std::vector<DecodeKernel> kernels{};
  std::vector<int32_t> page_sizes{};  ///< Any numbers: that some cannot be is a result.
  KernelCase decode_timed{};          ///< What decode kernels are timed on,
  KernelCase prompt_timed{};          ///< and the prompt kernel.
  int32_t repeats = 10;
  int64_t max_cache_bytes = 0;  ///< 0: no limit.
};

/// Tries each decode kernel and the prompt kernel at each page size: whether it takes it; whether
/// it is right there, by the kernel gate's rule on poisoned pages, at contexts around the page's
/// end and others; how long it takes. `on_result` is told of each result at once; its error ends
/// the run. Errors: the device's; cancelled, after an interrupt. A refusal is a result.
Expected<std::vector<PageProbeResult>> RunPageProbe(
    const OpsFactory& make_ops, const PageProbeOptions& options,
    const std::function<Status(const PageProbeResult&)>& on_result);

}  // namespace decant
