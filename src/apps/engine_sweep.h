#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/engine_flags.h"
#include "base/status.h"
#include "engine/load_engine.h"

namespace CLI {
class App;
}

namespace decant {

/// The engine's flags that a benchmark takes as lists, beside those of EngineFlags.
struct EngineSweep {
  std::vector<int32_t> max_batches = {32};
  std::vector<std::string> decode_kernels{};
};

/// Adds the engine's flags, --max-batch and --decode-kernel as lists.
void AddEngineSweep(CLI::App& app, EngineFlags& flags, EngineSweep& sweep);

/// The engines to run in turn: each kernel (the engine's own, if none is named) with each number of
/// rows. Errors: ToEngineOptions'.
Expected<std::vector<EngineOptions>> ToEngineSweep(const EngineFlags& flags,
                                                   const EngineSweep& sweep);

}  // namespace decant
