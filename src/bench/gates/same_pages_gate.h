#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "bench/gates/engine_gate.h"
#include "bench/gates/gate_report.h"
#include "bench/gates/served_run.h"

namespace decant {

/// How far two decode kernels are apart on the same pages.
struct KernelDistance {
  DecodeKernel kernel = DecodeKernel::kRows;  ///< Compared with the one that serves.
  int64_t steps = 0;
  int64_t outputs = 0;  ///< Heads of decode tokens, all layers.
  double largest = 0;   ///< Difference of two numbers; infinite where one is not finite.
  /// In units in the last place of the storage type at the largest output of the head.
  double largest_ulps = 0;
  int64_t too_far = 0;  ///< Heads further apart than kSamePagesUlps.
  Status refused{};     ///< Why the backend cannot run it; ok: it ran.
};

/// Each kernel may be off by twice what rounding costs, half a unit: the two are within two units
/// where the largest probability decides, and twice that where many are added.
inline constexpr double kSamePagesUlps = 4;

/// Operations that run every decode step's attention with other kernels too, on the pages as they
/// are at that moment, and write into `distances` how far their outputs are from the serving
/// kernel's. What the step computes is the serving kernel's.
std::unique_ptr<Ops> CompareDecodeKernels(std::unique_ptr<Ops> ops, int32_t head_dim,
                                          std::shared_ptr<std::vector<KernelDistance>> distances);

struct SamePagesGateOptions {
  EngineOptions engine{};  ///< Its decode kernel serves.
  /// Compared with the serving kernel. Empty: every other one that the backend has.
  std::vector<DecodeKernel> others{};
  GateWorkload workload{};
};

/// Serves a workload with one decode kernel and compares, in every step and layer, its outputs with
/// those of other kernels on the same pages. Errors: an engine that cannot be loaded.
Expected<GateReport> RunSamePagesGate(const EngineLoader& loader,
                                      const SamePagesGateOptions& options);

}  // namespace decant
