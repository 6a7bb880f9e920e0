#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/gates/engine_gate.h"
#include "bench/gates/gate_report.h"
#include "bench/gates/served_run.h"

namespace decant {

/// How an engine of the invariance gate serves.
struct InvarianceSetting {
  std::string name{};
  int32_t max_batch = 1;
  int32_t chunk_tokens = 512;
  int32_t page_size = 64;  ///< slots
  bool graphs = true;
};

struct InvarianceGateOptions {
  EngineOptions engine{};
  GateWorkload workload{};
  /// The first is what all others are compared with.
  std::vector<InvarianceSetting> settings = DefaultSettings();

  /// Each request alone; then 2 to 64 rows, which more requests come to and go from than there are,
  /// chunks of 64 to 2,048, pages of 16 to 256, with graphs and without.
  static std::vector<InvarianceSetting> DefaultSettings();
};

/// The same requests, served greedily in every setting: each token and the bits of all its logits
/// must be those of the first. Errors: an engine that cannot be loaded.
Expected<GateReport> RunInvarianceGate(const EngineLoader& loader,
                                       const InvarianceGateOptions& options);

}  // namespace decant
