#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/gates/gate_report.h"
#include "bench/gates/near_tie.h"
#include "bench/gates/served_run.h"
#include "bench/workload.h"

namespace decant {

/// Requests of a gate, drawn once a model's vocabulary is known.
struct GateWorkload {
  std::string name{};
  WorkloadOptions options{};
  int32_t requests = 32;
};

/// One of the engines that are compared, and what to call it.
struct NamedEngine {
  std::string name{};
  EngineOptions options{};
};

/// The gap of a near tie in a type of the computation: 0.02 as long as it carries 11 bits (fp16) or
/// more; eight times that in bf16, whose 8 bits round eight times as coarsely.
double NearTieGap(DType dtype);

struct EngineGateOptions {
  NamedEngine subject{};
  NamedEngine reference{};
  std::vector<GateWorkload> workloads{};
  /// Absent: NearTieGap of the reference's type.
  std::optional<double> near_tie_gap{};
  int32_t max_flip_sites = 4;
};

/// The same requests through two engines, greedily: token for token under the near-tie rule.
/// Errors: an engine that cannot be loaded, a workload that does not fit it; cancelled.
Expected<GateReport> RunEngineGate(const EngineLoader& loader, const EngineGateOptions& options);

}  // namespace decant
