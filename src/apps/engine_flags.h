#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/load_engine.h"

namespace CLI {
class App;
}

namespace decant {

/// The flags that say which model is served and how; every command that runs an engine has them.
struct EngineFlags {
  std::string model{};
  std::optional<uint64_t> random_weights{};
  std::string shape = "qwen2.5-1.5b";
  int32_t threads = 0;
  std::string device = "auto";
  std::string dtype = "auto";
  std::string preset = "auto";
  std::string weights = "keep";
  std::string graphs = "on";
  bool check_finite = false;
  std::optional<std::string> decode_kernel{};
  std::optional<std::string> linear{};
  std::optional<int32_t> page_size{};
  std::optional<double> pool_gib{};
  double gpu_memory_utilization = 0.9;
  int32_t max_batch = 32;
  std::string chunk_tokens = "512";
  std::optional<int32_t> max_chunk_tokens{};
  std::optional<double> max_step_ms{};
  int32_t max_model_len = 0;
};

/// Which of the flags a command has; the others it sets by itself, or takes as lists of values.
enum class EngineFlagSet {
  kAll,
  kWithoutBatch,   ///< Not --max-batch.
  kWithoutSweeps,  ///< Not --max-batch, not --decode-kernel.
};

/// Adds --model, which names a GGUF file and must be given.
void AddModelFlag(CLI::App& app, std::string& model);

/// Adds --model or --random-weights and the engine's flags; the values in `flags` are the defaults.
void AddEngineFlags(CLI::App& app, EngineFlags& flags, EngineFlagSet set);

/// What LoadEngine takes. Errors: no model, or a device, type, engine or decode kernel that does
/// not exist.
Expected<EngineOptions> ToEngineOptions(const EngineFlags& flags);

/// LoadEngine with a live progress line, and a log message that says how long it took.
Expected<std::unique_ptr<ServedModel>> LoadWithProgress(const EngineOptions& options);

}  // namespace decant
