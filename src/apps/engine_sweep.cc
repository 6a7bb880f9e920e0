#include "apps/engine_sweep.h"

#include <CLI/CLI.hpp>

#include "engine/preset.h"

namespace decant {

void AddEngineSweep(CLI::App& app, EngineFlags& flags, EngineSweep& sweep) {
  AddEngineFlags(app, flags, EngineFlagSet::kWithoutSweeps);
  app.add_option("--max-batch", sweep.max_batches, "Rows; a list is run in turn")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("ROWS,...");
  app.add_option("--decode-kernel", sweep.decode_kernels,
                 "Attention of decode tokens: split, rows or flash (default: the engine's); a list "
                 "is run in turn")
      ->delimiter(',')
      ->type_name("NAME,...");
}

Expected<std::vector<EngineOptions>> ToEngineSweep(const EngineFlags& flags,
                                                   const EngineSweep& sweep) {
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags));
  std::vector<DecodeKernel> kernels;
  for (const std::string& name : sweep.decode_kernels) {
    DECANT_ASSIGN_OR_RETURN(const DecodeKernel kernel, FindDecodeKernel(name, options.device));
    kernels.push_back(kernel);
  }
  if (kernels.empty()) kernels.push_back(options.decode_kernel);
  std::vector<EngineOptions> engines;
  for (const int32_t max_batch : sweep.max_batches) {
    for (const DecodeKernel kernel : kernels) {
      options.max_batch = max_batch;
      options.decode_kernel = kernel;
      engines.push_back(options);
    }
  }
  return engines;
}

}  // namespace decant
