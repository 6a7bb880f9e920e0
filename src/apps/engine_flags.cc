#include "apps/engine_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/log.h"
#include "base/progress.h"
#include "engine/preset.h"
#include "model/random_model.h"

namespace decant {

namespace {

CLI::Option* AddModelOption(CLI::App& app, std::string& model) {
  return app
      .add_option(
          "--model", model,
          "The model: a GGUF file (scripts/fetch-model gets one), a Hugging Face folder, or "
          "a hub name that lies in the local cache")
      ->type_name("MODEL");
}

}  // namespace

void AddModelFlag(CLI::App& app, std::string& model) { AddModelOption(app, model)->required(); }

void AddEngineFlags(CLI::App& app, EngineFlags& flags, EngineFlagSet set) {
  CLI::Option* const model = AddModelOption(app, flags.model);
  CLI::Option* const random =
      app.add_option("--random-weights", flags.random_weights,
                     "No model: random weights of this seed in a --shape, for speed alone")
          ->type_name("SEED")
          ->excludes(model);
  app.add_option("--shape", flags.shape,
                 fmt::format("Shape of random weights: {}", fmt::join(ShapeNames(), ", ")))
      ->capture_default_str()
      ->type_name("NAME")
      ->needs(random);
  app.add_option("--device", flags.device,
                 "Where it computes: cpu, cuda, cuda:N, or auto (the first GPU, if there is one)")
      ->capture_default_str()
      ->type_name("DEVICE");
  app.add_option(
         "--dtype", flags.dtype,
         "Type of weights and activations on CUDA: fp16, bf16 or auto (bf16 where the model "
         "was made in it or is known to leave fp16's range, else fp16)")
      ->capture_default_str()
      ->type_name("TYPE");
  app.add_option("--threads", flags.threads, "Threads that compute; 0: one for each processor")
      ->capture_default_str()
      ->type_name("N");
  app.add_option(
         "--engine", flags.preset,
         "Page size, decode kernel and on CUDA linear layers under one name: decant (64, split, "
         "invariant), fused (64, rows, cublas), flash (256, flash, cublas; CUDA only), or auto "
         "(decant)")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--page-size,--block-size", flags.page_size,
                 "Slots a page of the KV cache (default: the engine's)")
      ->type_name("SLOTS");
  app.add_option(
         "--linear", flags.linear,
         "Linear layers. On CUDA: invariant, where a row's bits depend on nothing else in the "
         "step, or cublas (default: the engine's; invariant for decant). On the CPU: onednn, or "
         "int8, where quantised weights meet activations rounded to 8 bits, as in llama.cpp: "
         "faster, less memory, a little less exact (default: onednn)")
      ->type_name("NAME");
  app.add_option("--weights", flags.weights,
                 "keep: quantised weights stay in memory beside the bf16 ones, for steps of a few "
                 "tokens; bf16: without them. Same output")
      ->capture_default_str()
      ->type_name("COPIES");
  app.add_option(
         "--graphs", flags.graphs,
         "On CUDA with the decode kernel split: on launches the layers of every step, loaded "
         "or not, as one graph; off kernel by kernel. Same output")
      ->capture_default_str()
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("SWITCH");
  app.add_flag("--check-finite", flags.check_finite,
               "Look at the activations after every operation: a request whose values are infinite "
               "or NaN fails with the layer and the operation where it began. Costs time, and on "
               "CUDA the graphs and the overlap of steps");
  app.add_option("--pool-gib", flags.pool_gib,
                 "Memory for the KV cache at most, in GiB (default: 2 on the CPU, on a GPU what "
                 "--gpu-memory-utilization leaves)")
      ->type_name("GIB");
  app.add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                 "Share of a GPU's memory for weights, workspace and KV cache together")
      ->capture_default_str()
      ->type_name("SHARE");
  app.add_option(
         "--chunk-tokens,--max-num-batched-tokens", flags.chunk_tokens,
         "Prompt tokens a step, all rows together (decode tokens do not count); or auto, to "
         "choose them for each step: as many as compute in the time that the step reads, or "
         "as --max-step-ms allows. Same output")
      ->capture_default_str()
      ->type_name("N|auto");
  app.add_option("--max-step-ms", flags.max_step_ms,
                 "With --chunk-tokens auto: the time that a step with prompt tokens may take, in "
                 "milliseconds, and so the gap between tokens of those who wait for it")
      ->type_name("MS");
  app.add_option(
         "--max-chunk-tokens", flags.max_chunk_tokens,
         "With --chunk-tokens auto: prompt tokens a step at most, a multiple of 16 (default: "
         "2048)")
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
  app.add_option("--max-batch,--max-num-seqs", flags.max_batch,
                 "Rows: requests that run at the same time")
      ->capture_default_str()
      ->type_name("ROWS");
}

namespace {

Status ReadChunk(const EngineFlags& flags, EngineOptions& options) {
  constexpr int32_t kMostByDefault = 2048;
  options.max_step_ms = flags.max_step_ms;
  options.auto_chunk = flags.chunk_tokens == "auto";
  if (options.auto_chunk) {
    options.chunk_tokens = flags.max_chunk_tokens.value_or(kMostByDefault);
    if (options.chunk_tokens >= 1) return {};
    return InvalidArgument("--max-chunk-tokens is {}; allowed: multiples of 16",
                           options.chunk_tokens);
  }
  const std::string& text = flags.chunk_tokens;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), options.chunk_tokens);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("--chunk-tokens is '{}'; allowed: a number of tokens, or auto", text);
  }
  if (flags.max_chunk_tokens) {
    return InvalidArgument("--max-chunk-tokens needs --chunk-tokens auto");
  }
  return {};
}

}  // namespace

Expected<EngineOptions> ToEngineOptions(const EngineFlags& flags) {
  EngineOptions options;
  DECANT_ASSIGN_OR_RETURN(options.device, FindDevice(flags.device));
  DECANT_ASSIGN_OR_RETURN(options.compute_type, FindComputeType(flags.dtype));
  DECANT_ASSIGN_OR_RETURN(const Preset preset, FindPreset(flags.preset, options.device));
  if (flags.random_weights) {
    options.random_weights = {.shape = flags.shape, .seed = *flags.random_weights};
  } else if (flags.model.empty()) {
    return InvalidArgument(
        "--model is missing (or --random-weights, to measure speed without one)");
  }
  options.model = flags.model;
  options.threads = flags.threads;
  options.decode_kernel = preset.decode_kernel;
  options.linear = preset.linear;
  if (flags.linear) {
    DECANT_ASSIGN_OR_RETURN(options.linear, FindLinearLayers(*flags.linear, options.device));
  }
  if (flags.decode_kernel) {
    DECANT_ASSIGN_OR_RETURN(options.decode_kernel,
                            FindDecodeKernel(*flags.decode_kernel, options.device));
  }
  DECANT_ASSIGN_OR_RETURN(options.weight_copies, FindWeightCopies(flags.weights));
  if (options.linear == LinearLayers::kInt8 && options.weight_copies == WeightCopies::kBf16) {
    return InvalidArgument(
        "--weights bf16 and --linear int8 exclude each other: int8 computes with the quantised "
        "weights alone");
  }
  options.graphs = flags.graphs == "on";
  options.check_finite = flags.check_finite;
  options.page_size = flags.page_size.value_or(preset.page_size);
  options.pool_gib = flags.pool_gib;
  options.gpu_memory_utilization = flags.gpu_memory_utilization;
  options.max_batch = flags.max_batch;
  DECANT_RETURN_IF_ERROR(ReadChunk(flags, options));
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
  if (gigabytes > 0) {
    LogInfo("{}: {:.2f} GB in {:.2f} s ({:.2f} GB/s); ready after {:.2f} s", served->config().name,
            gigabytes, served->weights_seconds(), gigabytes / served->weights_seconds(),
            served->load_seconds());
  } else {
    LogInfo("{}: made in {:.2f} s", served->config().name, served->load_seconds());
  }
  LogInfo("{}", served->ops().Describe());
  if (const ChosenType& type = served->compute_type(); !type.reason.empty()) {
    LogInfo("computes in {}: {}", type.type == ComputeType::kBf16 ? "bf16" : "fp16", type.reason);
  }
  LogInfo("KV cache: {} pages of {} slots, {} tokens, {:.2f} GB; workspace {:.2f} GB",
          served->num_pages(), served->page_size(),
          int64_t{served->num_pages()} * served->page_size(),
          static_cast<double>(served->pool_bytes()) / kGB,
          static_cast<double>(served->workspace_bytes()) / kGB);
  return served;
}

}  // namespace decant
