#include "ops/cuda/cuda_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "ops/cuda/cuda_finite_scan.h"
#include "ops/cuda/device.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/prompt_attention.h"
#include "ops/cuda/rows_attention.h"
#include "tensor/host_copy.h"

namespace decant {
namespace {

constexpr size_t kElementBytes = 2;

const float* VectorData(const std::unique_ptr<VectorWeight>& vector) {
  return vector == nullptr ? nullptr : static_cast<const CudaVector&>(*vector).data();
}

/// The layout that a decode kernel reads.
CacheLayout LayoutFor(DecodeKernel kernel) {
  return kernel == DecodeKernel::kSplit ? CacheLayout::kTiled : CacheLayout::kPlain;
}

Status CheckShape(const DecoderShape& shape) {
  if (shape.head_dim != 64 && shape.head_dim != 128) {
    return Error(StatusCode::kUnimplemented,
                 "heads of {} dims are not supported on CUDA; supported: 64 and 128 (--device cpu "
                 "takes others)",
                 shape.head_dim);
  }
  if (shape.hidden % 8 != 0 || shape.intermediate % 8 != 0) {
    return Error(StatusCode::kUnimplemented,
                 "hidden size {} and intermediate size {} are not supported on CUDA: both must be "
                 "multiples of 8",
                 shape.hidden, shape.intermediate);
  }
  return {};
}

}  // namespace

CudaOps::CudaOps(const CudaOpsOptions& options, CudaDeviceInfo device)
    : shape_(options.shape),
      type_(options.type),
      dtype_(options.type == CudaType::kF16 ? DType::kF16 : DType::kBf16),
      device_(std::move(device)),
      max_tokens_(options.max_tokens),
      max_rows_(options.max_rows),
      max_samples_(options.max_samples),
      max_model_len_(options.max_model_len),
      linear_layers_(options.linear),
      prompt_kernel_(options.prompt_kernel),
      decode_kernel_(options.decode_kernel),
      pool_(options.threads) {}

CudaOps::~CudaOps() {
  // Queued work may still use what dies here; what it failed with was told before.
  if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
}

Expected<std::unique_ptr<CudaOps>> CudaOps::Create(const CudaOpsOptions& options) {
  DECANT_RETURN_IF_ERROR(CheckShape(options.shape));
  DECANT_ASSIGN_OR_RETURN(CudaDeviceInfo device, OpenCudaDevice(options.device));
  std::unique_ptr<CudaOps> ops(new CudaOps(options, std::move(device)));
  DECANT_RETURN_IF_ERROR(ops->Initialise());
  return ops;
}

Status CudaOps::Initialise() {
  DECANT_ASSIGN_OR_RETURN(stream_, CudaStream::Create());
  const auto allocate = [](DeviceBuffer& buffer, int64_t rows, int64_t cols, size_t element) {
    Expected<DeviceBuffer> memory =
        DeviceBuffer::Allocate(static_cast<size_t>(rows * cols) * element, "the workspace");
    if (!memory.ok()) return memory.status();
    buffer = std::move(memory).value();
    return Status();
  };
  DECANT_RETURN_IF_ERROR(allocate(residual_, max_tokens_, shape_.hidden, sizeof(float)));
  if (linear_layers_ == LinearLayers::kInvariant) {
    DECANT_ASSIGN_OR_RETURN(fused_, FusedLayers::Create({.type = type_,
                                                         .device = device_.ordinal,
                                                         .shape = shape_,
                                                         .max_tokens = max_tokens_,
                                                         .max_samples = max_samples_},
                                                        stream_, residual_.As<float>()));
  } else {
    DECANT_ASSIGN_OR_RETURN(linear_, CudaLinear::Create(type_, stream_.get()));
    DECANT_RETURN_IF_ERROR(
        allocate(normed_, std::max(max_tokens_, max_samples_), shape_.hidden, kElementBytes));
    DECANT_RETURN_IF_ERROR(
        allocate(gate_up_, max_tokens_, int64_t{2} * shape_.intermediate, kElementBytes));
  }
  DECANT_ASSIGN_OR_RETURN(weight_upload_, WeightUpload::Create(type_, pool_));
  DECANT_RETURN_IF_ERROR(
      CudaStatus(PreparePromptAttention(type_, attention_shape(), device_.ordinal, &prompt_groups_),
                 "preparing the prompt kernel"));

  DECANT_RETURN_IF_ERROR(allocate(qkv_, max_tokens_, QkvCols(), sizeof(float)));
  DECANT_RETURN_IF_ERROR(allocate(queries_, max_tokens_, QueryCols(), kElementBytes));
  DECANT_RETURN_IF_ERROR(allocate(attended_, max_tokens_, QueryCols(), kElementBytes));
  // Padding is attended by no kernel, but goes through the layers behind attention.
  DECANT_RETURN_IF_ERROR(
      CudaStatus(FillDevice(attended_.data(), 0, attended_.size()), "clearing memory"));
  DECANT_RETURN_IF_ERROR(allocate(mlp_hidden_, max_tokens_, shape_.intermediate, kElementBytes));
  DECANT_RETURN_IF_ERROR(allocate(logits_, max_samples_, shape_.vocab, sizeof(float)));
  DECANT_RETURN_IF_ERROR(allocate(last_tokens_, max_rows_, 1, sizeof(int32_t)));
  DECANT_RETURN_IF_ERROR(
      CudaStatus(FillDevice(last_tokens_.data(), 0, last_tokens_.size()), "clearing memory"));
  DECANT_ASSIGN_OR_RETURN(
      drawn_tokens_, PinnedBuffer::Allocate(static_cast<size_t>(max_rows_) * 2 * sizeof(int32_t),
                                            "sampled tokens"));
  DECANT_ASSIGN_OR_RETURN(sampler_,
                          CudaSampler::Create({.max_rows = max_rows_, .vocab = shape_.vocab}));

  const int32_t half = shape_.head_dim / 2;
  DECANT_CHECK(static_cast<int32_t>(shape_.rope_frequencies.size()) == half,
               "{} rotary frequencies for a head of {} dims", shape_.rope_frequencies.size(),
               shape_.head_dim);
  std::vector<float> rotations(static_cast<size_t>(max_model_len_) * half * 2);
  pool_.Run(max_model_len_, [&](int64_t position, int) {
    float* out = rotations.data() + position * half * 2;
    for (int32_t i = 0; i < half; ++i) {
      // In float, as the reference implementation computes angles.
      const float angle = static_cast<float>(position) * shape_.rope_frequencies[i];
      out[2 * i] = std::cos(angle) * shape_.rope_scale;
      out[2 * i + 1] = std::sin(angle) * shape_.rope_scale;
    }
  });
  DECANT_RETURN_IF_ERROR(allocate(rotations_, max_model_len_, half, 2 * sizeof(float)));
  return CudaStatus(CopyToDevice(rotations_.data(), rotations.data(), rotations_.size()),
                    "uploading rotations");
}

std::string CudaOps::Describe() const {
  return fmt::format("cuda: {}, {} multiprocessors, {}, {} weights, decode kernel {}", device_.name,
                     device_.multiprocessors, fused_ ? fused_->Describe() : linear_->Describe(),
                     type_ == CudaType::kF16 ? "fp16" : "bf16", DecodeKernelName(decode_kernel_));
}

int64_t CudaOps::workspace_bytes() const {
  int64_t bytes = 0;
  for (const DeviceBuffer* buffer :
       {&residual_, &normed_, &qkv_, &queries_, &attended_, &gate_up_, &mlp_hidden_, &logits_,
        &last_tokens_, &rotations_, &flash_workspace_}) {
    bytes += static_cast<int64_t>(buffer->size());
  }
  if (split_) bytes += static_cast<int64_t>(split_->workspace_bytes());
  if (ranged_prompt_) bytes += static_cast<int64_t>(ranged_prompt_->workspace_bytes());
  bytes += fused_ ? fused_->workspace_bytes() : linear_->workspace_bytes();
  return bytes + sampler_->bytes();
}

void CudaOps::Note(const Status& status) const {
  if (status_.ok()) status_ = status;
}

template <typename Launch>
void CudaOps::Enqueue(std::string_view what, Launch&& launch) {
  if (!status_.ok() || graphs_.replays()) return;
  launch();
  Note(CudaStatus(cudaGetLastError(), what));
}

template <typename Call>
void CudaOps::Fused(Call&& call) {
  if (status_.ok() && !graphs_.replays()) Note(call());
}

Status CudaOps::AllocateCache(int32_t pages, int32_t page_size) {
  DECANT_RETURN_IF_ERROR(CheckDecodeKernel(decode_kernel_, page_size));
  if (prompt_kernel_ == PromptKernel::kFlash) {
    DECANT_RETURN_IF_ERROR(CheckDecodeKernel(DecodeKernel::kFlash, page_size));
  }
  DECANT_ASSIGN_OR_RETURN(cache_, CudaCache::Allocate(type_, attention_shape(), shape_.layers,
                                                      pages, page_size, LayoutFor(decode_kernel_)));
  split_.reset();  // of another cache's pages
  graphs_.Clear();
  DECANT_RETURN_IF_ERROR(PrepareDecode(decode_kernel_));
  DECANT_ASSIGN_OR_RETURN(
      step_upload_, StepUpload::Create({.tokens = max_tokens_,
                                        .rows = max_rows_,
                                        .pages_per_row = PagesPerRow(),
                                        .group = shape_.group(),
                                        .prompt_plan = PromptPlanner(PromptLimits()).most()}));
  return {};
}

bool CudaOps::RangesPrompts() const {
  return ranged_prompt_ && LayoutFor(decode_kernel_) == CacheLayout::kTiled;
}

bool CudaOps::FlashesPrompts() const {
  return prompt_kernel_ == PromptKernel::kFlash && LayoutFor(decode_kernel_) == CacheLayout::kPlain;
}

std::string_view CudaOps::prompt_kernel() const {
  if (RangesPrompts()) return "ranged";
  return FlashesPrompts() ? "flash" : "prompt";
}

Status CudaOps::CheckDecodeKernel(DecodeKernel kernel, int32_t page_size) const {
  switch (kernel) {
    case DecodeKernel::kRows:
      return {};
    case DecodeKernel::kFlash:
      DECANT_RETURN_IF_ERROR(FlashAttentionAvailable());
      return FlashDecode::Plan(FlashShape(1, 1, page_size)).status();
    case DecodeKernel::kSplit:
      return CheckSplit(attention_shape(), {.page_size = page_size, .max_rows = max_rows_});
  }
  return {};
}

Status CudaOps::PrepareDecode(DecodeKernel kernel) {
  if (kernel == DecodeKernel::kFlash && flash_workspace_.size() == 0) {
    DECANT_ASSIGN_OR_RETURN(const size_t bytes, FlashDecode::WorkspaceBound(FlashShape(
                                                    max_rows_, PagesPerRow(), cache_.page_size())));
    DECANT_ASSIGN_OR_RETURN(flash_workspace_,
                            DeviceBuffer::Allocate(bytes, "FlashAttention's workspace"));
  }
  if (kernel == DecodeKernel::kSplit && !ranged_prompt_) {
    DECANT_RETURN_IF_ERROR(PrepareRangedPrompt());
  }
  if (kernel == DecodeKernel::kSplit && !split_) {
    const SplitLimits limits{.page_size = cache_.page_size(),
                             .max_rows = max_rows_,
                             .max_context = PagesPerRow() * cache_.page_size(),
                             .max_positions = int64_t{cache_.pages()} * cache_.page_size()};
    DECANT_ASSIGN_OR_RETURN(split_, SplitDecode::Create(type_, attention_shape(), limits, device_));
  }
  if (cache_.pages() > 0 && cache_.Layer(0).layout != LayoutFor(kernel)) {
    DECANT_RETURN_IF_ERROR(cache_.PrepareConversion());
  }
  return {};
}

PromptPlanLimits CudaOps::PromptLimits() const {
  return {.shape = attention_shape(),
          .multiprocessors = device_.multiprocessors,
          .max_tokens = max_tokens_,
          .max_rows = max_rows_};
}

Status CudaOps::PrepareRangedPrompt() {
  Expected<RangedPrompt> prompt = RangedPrompt::Create(type_, PromptLimits(), device_.ordinal);
  if (prompt.ok()) {
    ranged_prompt_ = std::move(prompt).value();
  } else if (prompt.status().code() != StatusCode::kUnimplemented) {
    return prompt.status();
  }
  return {};
}

Status CudaOps::UseDecodeKernel(DecodeKernel kernel) {
  DECANT_RETURN_IF_ERROR(CheckDecodeKernel(kernel, cache_.page_size()));
  DECANT_RETURN_IF_ERROR(PrepareDecode(kernel));
  decode_kernel_ = kernel;
  graphs_.Clear();
  return PlanDecode();
}

FlashDecodeShape CudaOps::FlashShape(int32_t rows, int32_t table_pages, int32_t page_size) const {
  return {.type = type_,
          .rows = rows,
          .heads = shape_.heads,
          .kv_heads = shape_.kv_heads,
          .head_dim = shape_.head_dim,
          .page_size = page_size,
          .table_pages = table_pages,
          .multiprocessors = device_.multiprocessors};
}

Status CudaOps::PlanDecode() {
  flash_.reset();
  if (step_.decode_rows == 0) return {};
  if (decode_kernel_ == DecodeKernel::kFlash) return PlanFlash();
  if (decode_kernel_ == DecodeKernel::kSplit) return PlanSplit();
  return {};
}

Status CudaOps::PlanFlash() {
  DECANT_ASSIGN_OR_RETURN(flash_, FlashDecode::Plan(FlashShape(
                                      step_.decode_rows, step_.table_stride, cache_.page_size())));
  if (flash_->workspace_bytes() <= flash_workspace_.size()) return {};
  // Only where a gate's block tables have entries past the longest row's.
  DECANT_ASSIGN_OR_RETURN(flash_workspace_, DeviceBuffer::Allocate(flash_->workspace_bytes(),
                                                                   "FlashAttention's workspace"));
  return {};
}

Status CudaOps::PlanFlashPrompts(const StepBatch& batch) {
  flash_chunks_.clear();
  if (!FlashesPrompts()) return {};
  size_t bytes = 0;
  for (size_t r = 0; r < batch.rows.size(); ++r) {
    const BatchRow& row = batch.rows[r];
    if (row.query_len == 1) continue;
    FlashDecodeShape shape = FlashShape(1, step_.table_stride, cache_.page_size());
    shape.queries = row.query_len;
    DECANT_ASSIGN_OR_RETURN(const FlashDecode plan, FlashDecode::Plan(shape));
    flash_chunks_.push_back({.plan = plan, .row = Narrow<int32_t>(r), .token = row.query_start});
    bytes = std::max(bytes, plan.workspace_bytes());
  }
  if (bytes <= flash_workspace_.size()) return {};
  DECANT_ASSIGN_OR_RETURN(flash_workspace_,
                          DeviceBuffer::Allocate(bytes, "FlashAttention's workspace"));
  return {};
}

Status CudaOps::RunFlash(const FlashDecode& plan, int32_t row, int32_t token,
                         const CachePages& pages, TensorView queries, TensorView attended) {
  const auto skipped = static_cast<int64_t>(kElementBytes) * token * QueryCols();
  return plan.Run({.queries = queries.data + skipped,
                   .query_stride = QueryCols(),
                   .attended = attended.data + skipped,
                   .attended_stride = QueryCols(),
                   .k = pages.k,
                   .v = pages.v,
                   .page_stride = pages.page_stride,
                   .slot_stride = shape_.head_dim,
                   .head_stride = pages.head_stride,
                   .block_tables = step_.block_tables + int64_t{row} * step_.table_stride,
                   .table_stride = step_.table_stride,
                   .context_lens = step_.context_lens + row,
                   .workspace = flash_workspace_.data(),
                   .scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim))},
                  stream_.get());
}

Status CudaOps::PlanSplit() {
  const int64_t most = int64_t{cache_.pages()} * cache_.page_size();
  DECANT_CHECK(decode_positions_ <= most, "{} positions of decode rows in a pool of {}",
               decode_positions_, most);
  if (graphs_.replays()) return {};
  return split_->Plan(step_, stream_.get());
}

void CudaOps::WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                        std::span<const float> values) {
  Note(cache_.WritePage(layer, page, keys, values, stream_));
}

void CudaOps::ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                       std::span<float> values) const {
  Note(cache_.ReadPage(layer, page, keys, values, stream_));
}

void CudaOps::Upload(std::span<const float> values, TensorView view) {
  std::vector<std::byte> bytes(values.size() * DTypeSize(view.dtype));
  TensorView host = view;
  host.data = bytes.data();
  UploadToHost(values, host);
  Note(stream_.Synchronize());
  Note(CudaStatus(CopyToDevice(view.data, bytes.data(), bytes.size()), "uploading values"));
  if (fused_ && view.data == residual_.data()) {
    Fused([&] { return fused_->TakeResidual(Narrow<int32_t>(view.rows)); });
  }
}

void CudaOps::Download(TensorView view, std::span<float> values) const {
  std::vector<std::byte> bytes(values.size() * DTypeSize(view.dtype));
  Note(stream_.Synchronize());
  Note(CudaStatus(cudaMemcpy(bytes.data(), view.data, bytes.size(), cudaMemcpyDeviceToHost),
                  "downloading values"));
  TensorView host = view;
  host.data = bytes.data();
  DownloadFromHost(host, values);
}

void CudaOps::BeginStep(const StepBatch& batch) {
  DECANT_CHECK(batch.tokens() > 0 && batch.tokens() <= max_tokens_ &&
                   static_cast<int32_t>(batch.rows.size()) <= max_rows_,
               "a step of {} tokens in {} rows", batch.tokens(), batch.rows.size());
  step_ = {};
  tokens_ = batch.tokens();
  samples_ = 0;
  attention_work_ = CountAttention(batch.rows);
  decode_positions_ = 0;
  for (const BatchRow& row : batch.rows) {
    if (row.query_len == 1) decode_positions_ += row.context_len;
  }
  if (!status_.ok()) return;
  // FlashAttention chooses its splits by the stride. With `split`, steps are rounded whether graphs
  // are used or not, so that the same products are computed.
  const StepShape shape =
      decode_kernel_ == DecodeKernel::kSplit ? StepShape::kRounded : StepShape::kExact;
  Expected<StepArrays> step =
      step_upload_->Send(batch, RangesPrompts() ? &ranged_prompt_->planner() : nullptr, shape,
                         DrawsInGraph(), stream_);
  if (!step.ok()) {
    Note(step.status());
    return;
  }
  step_ = *step;
  if (step_.prompt_plan.items > 0) {
    Note(ranged_prompt_->Reset(step_.prompt_plan.slots, stream_.get()));
  }
  Note(PlanFlashPrompts(batch));
  BeginLayers();
  Note(PlanDecode());
}

GraphDraws CudaOps::DrawsInGraph() const {
  return use_graphs_ && decode_kernel_ == DecodeKernel::kSplit ? graph_draws_ : GraphDraws{};
}

int32_t CudaOps::GraphSamples() const {
  const int32_t samples = DrawsInGraph().samples;
  return samples == 0 ? 0 : std::min(PaddedTokens(samples, max_samples_), step_.tokens);
}

void CudaOps::BeginLayers() {
  if (!use_graphs_ || !status_.ok() || decode_kernel_ != DecodeKernel::kSplit) return;
  // Pages that are converted would be so again with every launch.
  if (cache_.Layer(shape_.layers - 1).layout != CacheLayout::kTiled) return;
  const StepKind kind{.tokens = step_.tokens,
                      .table_stride = step_.table_stride,
                      .decodes = step_.decode_rows > 0,
                      .prompts = step_.decode_rows < step_.rows,
                      .samples = GraphSamples()};
  // The grid of the other prompt kernel follows the prompts.
  if (kind.prompts && step_.prompt_plan.items == 0) return;
  graphs_.Begin(kind, stream_);
}

bool CudaOps::FinishLayers() {
  // What fails while a graph is recorded has not run; calls are made again without.
  const Status calls = graphs_.records() ? std::exchange(status_, Status()) : Status();
  const Expected<StepCalls> outcome = graphs_.Finish(calls, stream_);
  Note(outcome.status());
  return !outcome.ok() || *outcome == StepCalls::kQueued;
}

void CudaOps::Embed(const EmbeddingWeight& embedding, TensorView residual) {
  const auto& table = static_cast<const CudaWeight&>(embedding);
  if (fused_) return Fused([&] { return fused_->Embed(table, step_, last_tokens()); });
  Enqueue("embedding", [&] {
    LaunchEmbed(type_, table.buffer.data(), shape_.hidden, step_, last_tokens(),
                reinterpret_cast<float*>(residual.data), stream_.get());
  });
}

void CudaOps::NormRows(const VectorWeight& weight, TensorView residual) {
  Enqueue("norm", [&] {
    LaunchRmsNorm(type_, reinterpret_cast<const float*>(residual.data),
                  static_cast<const CudaVector&>(weight).data(), shape_.norm_epsilon, step_.tokens,
                  shape_.hidden, normed_.data(), stream_.get());
  });
}

void CudaOps::Multiply(const LinearWeight& weight, const void* input, int32_t tokens,
                       LinearOutput kind, void* output) {
  if (!status_.ok() || graphs_.replays()) return;
  Note(linear_->Run(static_cast<const CudaWeight&>(weight), input, tokens, kind, output));
}

void CudaOps::NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                                TensorView queries) {
  if (fused_ && weights.q_norm == nullptr) {
    const QkvPlaces places{.bias = VectorData(weights.qkv_bias),
                           .rotations = rotations_.As<float>(),
                           .shape = attention_shape(),
                           .cache = cache_.Layer(layer),
                           .positions = step_.positions,
                           .token_rows = step_.token_rows,
                           .block_tables = step_.block_tables,
                           .table_stride = step_.table_stride};
    return Fused([&] { return fused_->Qkv(*weights.qkv, places, step_.tokens, queries.data); });
  }
  if (fused_) {
    Fused([&] { return fused_->QkvSums(*weights.qkv, step_.tokens, qkv_.As<float>()); });
  } else {
    NormRows(*weights.attention_norm, residual);
    Multiply(*weights.qkv, normed_.data(), step_.tokens, LinearOutput::kFloat, qkv_.data());
  }
  const FinishQkvArgs args{.qkv = qkv_.As<float>(),
                           .bias = VectorData(weights.qkv_bias),
                           .q_norm = VectorData(weights.q_norm),
                           .k_norm = VectorData(weights.k_norm),
                           .rotations = rotations_.As<float>(),
                           .epsilon = shape_.norm_epsilon,
                           .shape = attention_shape(),
                           .queries = queries.data,
                           .cache = cache_.Layer(layer)};
  Enqueue("rotary embedding", [&] { LaunchFinishQkv(type_, args, step_, stream_.get()); });
}

void CudaOps::Attention(int32_t layer, TensorView queries, TensorView attended) {
  // Only where a gate has exchanged the kernel after the start is there something to convert.
  if (status_.ok()) Note(cache_.Convert(layer, LayoutFor(decode_kernel_), stream_));
  const CachePages pages = cache_.Layer(layer);
  const bool ranged = pages.layout == CacheLayout::kTiled && step_.prompt_plan.items > 0;
  if (ranged) {
    if (status_.ok() && !graphs_.replays()) {
      Note(ranged_prompt_->Launch(step_, pages, queries.data, attended.data, stream_.get()));
    }
  } else if (FlashesPrompts()) {
    for (const FlashChunk& chunk : flash_chunks_) {
      if (!status_.ok()) break;
      Note(RunFlash(chunk.plan, chunk.row, chunk.token, pages, queries, attended));
    }
  } else {
    Enqueue("prompt attention", [&] {
      LaunchPromptAttention(type_, attention_shape(), prompt_groups_, step_, pages, queries.data,
                            attended.data, stream_.get());
    });
  }
  if (attention_clock_ != nullptr) attention_clock_->Mark();
  if (step_.decode_rows == 0) return;
  if (flash_) {
    if (status_.ok()) Note(RunFlash(*flash_, 0, 0, pages, queries, attended));
    return;
  }
  if (decode_kernel_ == DecodeKernel::kSplit) {
    if (!status_.ok() || graphs_.replays()) return;
    // A mark is an event between the two kernels, which says when the first one has ended.
    const bool beside = ranged && attention_clock_ == nullptr;
    return Note(beside ? split_->RunBeside(pages, queries.data, attended.data, stream_.get())
                       : split_->Run(pages, queries.data, attended.data, stream_.get()));
  }
  Enqueue("rows attention", [&] {
    LaunchRowsAttention(type_, attention_shape(), step_, pages, queries.data, attended.data,
                        stream_.get());
  });
}

void CudaOps::ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) {
  if (fused_) return Fused([&] { return fused_->ProjectAdd(weight, input.data, step_.tokens); });
  Multiply(weight, input.data, step_.tokens, LinearOutput::kAdd, residual.data);
}

void CudaOps::NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) {
  if (fused_) {
    return Fused([&] { return fused_->GateUpSilu(*weights.gate_up, step_.tokens, out.data); });
  }
  NormRows(*weights.mlp_norm, residual);
  Multiply(*weights.gate_up, normed_.data(), step_.tokens, LinearOutput::kElement, gate_up_.data());
  Enqueue("SiLU", [&] {
    LaunchSiluMul(type_, gate_up_.data(), step_.tokens, shape_.intermediate, out.data,
                  stream_.get());
  });
}

TensorView CudaOps::NormHead(const VectorWeight& final_norm, const LinearWeight& head,
                             TensorView residual, std::span<const int32_t> tokens) {
  DECANT_CHECK(static_cast<int32_t>(tokens.size()) <= max_samples_, "logits of {} tokens",
               tokens.size());
  samples_ += static_cast<double>(tokens.size());
  const TensorView logits{.data = logits_.data(),
                          .dtype = DType::kF32,
                          .rows = static_cast<int64_t>(tokens.size()),
                          .cols = shape_.vocab};
  if (tokens.empty()) return logits;
  if (fused_) {
    Fused([&] { return fused_->Head(head, tokens, logits_.As<float>()); });
    return logits;
  }
  Enqueue("norm", [&] {
    LaunchRmsNormOf(type_, reinterpret_cast<const float*>(residual.data), tokens,
                    static_cast<const CudaVector&>(final_norm).data(), shape_.norm_epsilon,
                    shape_.hidden, normed_.data(), stream_.get());
  });
  Multiply(head, normed_.data(), static_cast<int32_t>(tokens.size()), LinearOutput::kFloat,
           logits_.data());
  return logits;
}

void CudaOps::HeadTokens(const LinearWeight& head, std::span<const int32_t> tokens,
                         std::span<const int32_t> slots, int turn) {
  DECANT_CHECK(tokens.size() == slots.size() && static_cast<int32_t>(tokens.size()) <= max_samples_,
               "largest logits of {} tokens for {} rows", tokens.size(), slots.size());
  samples_ += static_cast<double>(tokens.size());
  if (tokens.empty()) return;
  const GraphDraws draws = DrawsInGraph();
  if (draws.samples == 0) {
    return Fused(
        [&] { return fused_->HeadTokens(head, tokens, slots, last_tokens(), drawn_tokens(turn)); });
  }
  DECANT_CHECK(AreFirst(tokens) && std::ssize(tokens) == draws.samples && turn == draws.turn,
               "{} tokens drawn in a graph of {}", tokens.size(), draws.samples);
  Fused([&] {
    return fused_->HeadFirstTokens(head, GraphSamples(), step_, last_tokens(), drawn_tokens(0),
                                   max_rows_);
  });
}

StepCost CudaOps::Cost() const {
  const double kv_bytes = 2.0 * shape_.kv_heads * shape_.head_dim * kElementBytes * shape_.layers;
  StepCost cost;
  cost.bytes = layer_bytes_ + (samples_ > 0 ? head_bytes_ : 0) + attention_work_.keys * kv_bytes;
  // Each weight of two bytes is used once a token, in a multiply-add.
  cost.operations = tokens_ * layer_bytes_ + samples_ * head_bytes_ +
                    4 * attention_work_.products * shape_.heads * shape_.head_dim * shape_.layers;
  return cost;
}

std::unique_ptr<FiniteScan> CudaOps::MakeFiniteScan() {
  return std::make_unique<CudaFiniteScan>(stream_, [this](const Status& status) { Note(status); });
}

std::unique_ptr<OpsClock> CudaOps::MakeClock() {
  return std::make_unique<CudaClock>(stream_, [this](const Status& status) { Note(status); });
}

bool CudaOps::MarkAttention(OpsClock* clock) {
  attention_clock_ = clock;
  return clock != nullptr;
}

void CudaOps::ParallelFor(int64_t items, const std::function<void(int64_t)>& body) {
  pool_.Run(items, [&](int64_t item, int) { body(item); });
}

}  // namespace decant
