#include "engine/load_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "engine/model_text.h"
#include "engine/step_balance.h"
#include "model/random_model.h"
#include "ops/check_finite_ops.h"
#include "runtime/failing_runner.h"
#include "runtime/host_sampling.h"

namespace decant {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

Status CheckAtLeastOne(std::string_view flag, int64_t value) {
  if (value >= 1) return {};
  return InvalidArgument("{} is {}; allowed: 1 or more", flag, value);
}

Status CheckAutoChunk(const EngineOptions& options) {
  const double most_ms = options.max_step_ms.value_or(1);
  if (!(most_ms > 0) || !std::isfinite(most_ms)) {
    return InvalidArgument("--max-step-ms is {}; allowed: above 0", most_ms);
  }
  if (!options.auto_chunk && options.max_step_ms) {
    return InvalidArgument("--max-step-ms needs --chunk-tokens auto");
  }
  if (options.auto_chunk && options.chunk_tokens % ChunkPolicy::kGrain != 0) {
    return InvalidArgument("--max-chunk-tokens is {}; allowed: multiples of {}",
                           options.chunk_tokens, ChunkPolicy::kGrain);
  }
  return {};
}

/// How each step's chunk is chosen; without a time limit the device is measured.
std::optional<ChunkPolicyConfig> MakeChunkPolicy(const EngineOptions& options,
                                                 const ModelConfig& config,
                                                 const DecoderWeights& weights, Ops& ops) {
  if (!options.auto_chunk) return std::nullopt;
  ChunkPolicyConfig policy{.most = options.chunk_tokens};
  if (options.max_step_ms) {
    policy.max_step_seconds = *options.max_step_ms * 1e-3;
  } else {
    policy.balance = MakeStepBalance(config, weights, ops.MeasureBandwidth(), ops.MeasureRate());
  }
  return policy;
}

Status CheckOptions(const EngineOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    return InvalidArgument("--threads is {}; allowed: 0 (one for each processor) to 1024",
                           options.threads);
  }
  if (options.pool_gib && (!(*options.pool_gib > 0) || *options.pool_gib > 65536)) {
    return InvalidArgument("--pool-gib is {}; allowed: above 0, at most 65536", *options.pool_gib);
  }
  if (!(options.gpu_memory_utilization > 0) || options.gpu_memory_utilization > 1) {
    return InvalidArgument("--gpu-memory-utilization is {}; allowed: above 0, at most 1",
                           options.gpu_memory_utilization);
  }
  if (options.max_model_len < 0) {
    return InvalidArgument("--max-model-len is {}; allowed: 0 (the model's own) or more",
                           options.max_model_len);
  }
  DECANT_RETURN_IF_ERROR(CheckAtLeastOne("--max-batch", options.max_batch));
  DECANT_RETURN_IF_ERROR(CheckAtLeastOne("--chunk-tokens", options.chunk_tokens));
  if (options.max_batch > 4096 || options.chunk_tokens > 65536) {
    return InvalidArgument(
        "--max-batch is {} and --chunk-tokens {}; allowed: at most 4096 and 65536",
        options.max_batch, options.chunk_tokens);
  }
  DECANT_RETURN_IF_ERROR(CheckAutoChunk(options));
  return ValidatePageSize(options.page_size).WithContext("--page-size");
}

/// What the model computes with, made of the backend's operations.
OpsWrapper Wrapper(const EngineOptions& options) {
  if (!options.check_finite) return options.wrap_ops;
  return [wrap = options.wrap_ops](std::unique_ptr<Ops> ops,
                                   const DecoderShape& shape) -> std::unique_ptr<Ops> {
    if (wrap) ops = wrap(std::move(ops), shape);
    return std::make_unique<CheckFiniteOps>(std::move(ops));
  };
}

/// Pages that fit the pool's memory; all there can be use of, if that is fewer.
Expected<int32_t> CountPages(const EngineOptions& options, const ModelConfig& config,
                             int32_t max_model_len, const Backend& backend) {
  const double page_bytes =
      static_cast<double>(config.KvBytesPerToken(sizeof(Bf16))) * options.page_size;
  double pool_bytes = options.pool_gib.value_or(0) * kGib;
  if (!options.pool_gib) {
    DECANT_ASSIGN_OR_RETURN(const int64_t bytes,
                            backend.DefaultPoolBytes(options.gpu_memory_utilization));
    pool_bytes = static_cast<double>(bytes);
  }
  const double fitting = std::floor(pool_bytes / page_bytes);
  const double useful = std::ceil(static_cast<double>(max_model_len) / options.page_size) *
                        static_cast<double>(options.max_batch);
  const double slots_limit = std::floor(2147483647.0 / options.page_size);
  const double wanted = options.max_pages > 0 ? options.max_pages : slots_limit;
  const double pages = std::min({fitting, useful, slots_limit, wanted});
  if (pages < 1) {
    return Error(
        StatusCode::kResourceExhausted,
        "a pool of {:.4f} GiB holds no page: one of --page-size {} takes {:.4f} GiB; raise "
        "--pool-gib or --gpu-memory-utilization",
        std::max(pool_bytes, 0.0) / kGib, options.page_size, page_bytes / kGib);
  }
  return static_cast<int32_t>(pages);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Expected<std::unique_ptr<ServedModel>> LoadEngine(const EngineOptions& options,
                                                  const LoadProgress& progress) {
  DECANT_RETURN_IF_ERROR(CheckOptions(options));
  const auto start = std::chrono::steady_clock::now();
  auto model = std::make_unique<ServedModel>();
  const ModelConfig& config = model->files_.config;
  if (options.random_weights) {
    DECANT_ASSIGN_OR_RETURN(model->files_.config, FindShape(options.random_weights->shape));
    model->files_.location.name = config.name;
  } else {
    DECANT_ASSIGN_OR_RETURN(model->files_, OpenModelFiles(options.model));
    model->files_.tensors->Prefetch();
  }
  DECANT_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                          options.random_weights ? ByteTokenizer() : LoadTokenizer(model->files_));
  // An embedding is often padded to a round number of rows.
  if (tokenizer.vocab_size() > config.shape.vocab) {
    return DataLoss("{}: the tokenizer has {} tokens, the embedding {} rows", options.model,
                    tokenizer.vocab_size(), config.shape.vocab);
  }
  model->tokenizer_ = std::make_shared<const Tokenizer>(std::move(tokenizer));

  model->compute_type_ = ChooseComputeType(options.compute_type, options.device,
                                           options.random_weights ? ModelConfig() : config);

  const int32_t own_len = config.shape.max_positions;
  if (options.max_model_len > own_len) {
    return InvalidArgument("--max-model-len is {}; the model's own is {}", options.max_model_len,
                           own_len);
  }
  model->max_model_len_ = options.max_model_len == 0 ? own_len : options.max_model_len;
  const int32_t processors = std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  DECANT_ASSIGN_OR_RETURN(
      model->backend_,
      MakeBackend({.device = options.device,
                   .compute_type = model->compute_type_.type,
                   .shape = config.shape,
                   .decode_kernel = options.decode_kernel,
                   .linear = options.linear,
                   .weight_copies = options.weight_copies,
                   .threads = options.threads == 0 ? processors : options.threads,
                   .max_tokens = options.chunk_tokens + options.max_batch,
                   .max_rows = options.max_batch,
                   .max_samples = std::max(options.max_batch, HostSampling::kPromptBlock),
                   .max_model_len = model->max_model_len_,
                   .graphs = options.graphs},
                  Wrapper(options)));
  Ops& ops = model->backend_->ops();
  const auto packing = std::chrono::steady_clock::now();
  const LoadProgress timed = [&](int64_t done, int64_t total) {
    model->weights_seconds_ = SecondsSince(packing);
    if (progress) progress(done, total);
  };
  DECANT_ASSIGN_OR_RETURN(model->weights_,
                          options.random_weights
                              ? MakeRandomWeights(config, options.random_weights->seed, ops, timed)
                              : LoadDecoderWeights(model->files_.tensors, config, ops, timed));
  model->page_size_ = options.page_size;
  DECANT_ASSIGN_OR_RETURN(model->num_pages_,
                          CountPages(options, config, model->max_model_len_, *model->backend_));
  DECANT_RETURN_IF_ERROR(ops.AllocateCache(model->num_pages_, options.page_size));
  EngineConfig engine_config;
  engine_config.chunk_policy = MakeChunkPolicy(options, config, model->weights_, ops);
  model->load_seconds_ = SecondsSince(start);

  engine_config.scheduler = {
      .max_batch = options.max_batch,
      .chunk_tokens = options.chunk_tokens,
      .limits = {.max_model_len = model->max_model_len_, .vocab_size = config.shape.vocab}};
  engine_config.num_pages = model->num_pages_;
  engine_config.page_size = options.page_size;
  engine_config.end_of_text.assign(config.stop_tokens.begin(), config.stop_tokens.end());
  engine_config.step_history = options.step_history;
  model->PoisonFreedPages(options.poison_freed_pages);
  engine_config.free_observer =
      [&ops, &poison = model->poison_freed_pages_](std::span<const int32_t> pages) {
        if (!poison) return;
        for (const int32_t page : pages) ops.PoisonPage(page);
      };
  DECANT_ASSIGN_OR_RETURN(std::unique_ptr<StepRunner> runner,
                          model->backend_->MakeRunner(model->weights_, options.logits_observer));
  if (options.fail_at_step) {
    runner = std::make_unique<FailingRunner>(std::move(runner), *options.fail_at_step);
  }
  DECANT_ASSIGN_OR_RETURN(model->engine_, Engine::Create(std::move(engine_config),
                                                         std::move(runner), model->tokenizer_));
  return model;
}

}  // namespace decant
