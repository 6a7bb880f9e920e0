#include "apps/engine_flags.h"

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "base/progress.h"
#include "engine/preset.h"

namespace decant {

void AddModelFlag(CLI::App& app, std::string& model) {
  app.add_option("--model", model, "The model: a GGUF file (scripts/fetch-model gets one)")
      ->required()
      ->type_name("FILE");
}

void AddEngineFlags(CLI::App& app, EngineFlags& flags, EngineFlagSet set) {
  AddModelFlag(app, flags.model);
  app.add_option("--threads", flags.threads, "Threads that compute; 0: one for each processor")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--engine", flags.preset,
                 "Page size and decode kernel under one name: decant (64, split), fused (64, rows) "
                 "or flash (256, flash; CUDA only)")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--page-size", flags.page_size,
                 "Slots a page of the KV cache (default: the engine's)")
      ->type_name("SLOTS");
  app.add_option("--weights", flags.weights,
                 "keep: quantised weights stay in memory beside the bf16 ones, for steps of a few "
                 "tokens; bf16: without them. Same output")
      ->capture_default_str()
      ->type_name("COPIES");
  app.add_option("--pool-gib", flags.pool_gib, "Memory for the KV cache at most, in GiB")
      ->capture_default_str()
      ->type_name("GIB");
  app.add_option("--chunk-tokens", flags.chunk_tokens, "Prompt tokens a step, all rows together")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--max-model-len", flags.max_model_len,
                 "Positions a request may have; 0: as many as the model")
      ->capture_default_str()
      ->type_name("N");
  if (set == EngineFlagSet::kWithoutSweeps) return;
  app.add_option("--decode-kernel", flags.decode_kernel,
                 "Attention of decode tokens: split, rows or flash (default: the engine's)")
      ->type_name("NAME");
  if (set == EngineFlagSet::kWithoutBatch) return;
  app.add_option("--max-batch", flags.max_batch, "Rows: requests that run at the same time")
      ->capture_default_str()
      ->type_name("ROWS");
}

Expected<EngineOptions> ToEngineOptions(const EngineFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const Preset preset, FindPreset(flags.preset));
  EngineOptions options;
  options.model = flags.model;
  options.threads = flags.threads;
  options.decode_kernel = preset.decode_kernel;
  if (flags.decode_kernel) {
    DECANT_ASSIGN_OR_RETURN(options.decode_kernel, FindDecodeKernel(*flags.decode_kernel));
  }
  DECANT_ASSIGN_OR_RETURN(options.weight_copies, FindWeightCopies(flags.weights));
  options.page_size = flags.page_size.value_or(preset.page_size);
  options.pool_gib = flags.pool_gib;
  options.max_batch = flags.max_batch;
  options.chunk_tokens = flags.chunk_tokens;
  options.max_model_len = flags.max_model_len;
  return options;
}

Expected<std::unique_ptr<ServedModel>> LoadWithProgress(const EngineOptions& options) {
  std::unique_ptr<Progress> progress;
  int64_t shown = 0;
  const auto show = [&](int64_t done, int64_t total) {
    if (!progress) progress = std::make_unique<Progress>("loading", total, "bytes");
    progress->Advance(done - shown);
    shown = done;
  };
  DECANT_ASSIGN_OR_RETURN(auto served, LoadEngine(options, show));
  progress.reset();
  constexpr double kGB = 1e9;
  const double gigabytes = static_cast<double>(served->file_bytes()) / kGB;
  LogInfo("{}: {:.2f} GB in {:.2f} s ({:.2f} GB/s); {}", served->config().name, gigabytes,
          served->load_seconds(), gigabytes / served->load_seconds(), served->ops().Describe());
  return served;
}

}  // namespace decant
