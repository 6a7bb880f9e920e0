#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/narrow.h"
#include "base/status.h"
#include "ops/cpu/thread_pool.h"
#include "ops/cuda/cuda_cache.h"
#include "ops/cuda/cuda_clock.h"
#include "ops/cuda/device.h"
#include "ops/cuda/flash_attention.h"
#include "ops/cuda/fused_layers.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/ranged_prompt.h"
#include "ops/cuda/sampler.h"
#include "ops/cuda/split_attention.h"
#include "ops/cuda/step_graphs.h"
#include "ops/cuda/step_upload.h"
#include "ops/cuda/weight_upload.h"
#include "ops/ops.h"
#include "ops/prompt_kernel.h"

namespace decant {

struct CudaOpsOptions {
  DecoderShape shape;
  CudaType type = CudaType::kF16;
  DecodeKernel decode_kernel = DecodeKernel::kFlash;
  PromptKernel prompt_kernel = PromptKernel::kOwn;
  LinearLayers linear = LinearLayers::kLibrary;
  int device = 0;
  int32_t threads = 1;      ///< Host threads that decode weights.
  int32_t max_tokens = 0;   ///< Tokens of one step at most.
  int32_t max_rows = 0;     ///< Rows of one step at most.
  int32_t max_samples = 0;  ///< Tokens of one NormHead at most.
  int32_t max_model_len = 0;
};

/// The operations on a GPU: linear layers by cuBLASLt with small kernels between them, or by
/// kernels of ours with those operations inside (FusedLayers); attention by kernels of ours or, for
/// the decode kernel `flash`, FlashAttention. Weights, activations, K and V in fp16 or bf16; sums,
/// norms, the residual and logits in fp32.
///
/// All calls of a step queue work on one stream and return; views point to device memory. What
/// fails is kept: status() says so after the step.
class CudaOps : public Ops {
 public:
  /// Errors: no such device, no room, a library that is missing, a shape that the kernels do not
  /// take (head_dim other than 64 and 128).
  static Expected<std::unique_ptr<CudaOps>> Create(const CudaOpsOptions& options);
  ~CudaOps() override;

  std::string Describe() const override;

  std::unique_ptr<LinearWeight> PackQkv(const VectorWeight& norm, const RowSource& q,
                                        const RowSource& k, const RowSource& v) override;
  std::unique_ptr<LinearWeight> PackGateUp(const VectorWeight& norm, const RowSource& gate,
                                           const RowSource& up) override;
  std::unique_ptr<LinearWeight> PackProjection(const RowSource& weight) override;
  std::unique_ptr<LinearWeight> PackHead(const VectorWeight& norm,
                                         const RowSource& weight) override;
  std::unique_ptr<EmbeddingWeight> PackEmbedding(const RowSource& weight) override;
  std::unique_ptr<VectorWeight> PackVector(std::span<const float> values) override;

  /// Also chooses how the linear layers are computed, by measurement.
  Status FinishLoading() override;
  Status AllocateCache(int32_t pages, int32_t page_size) override;
  void PoisonPage(int32_t page) override { Note(cache_.Poison(page, stream_)); }
  void FillCache(const RandomRows& values) override { Note(cache_.Fill(values, stream_)); }
  DType cache_type() const override { return dtype_; }
  void WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                 std::span<const float> values) override;
  void ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                std::span<float> values) const override;
  void Upload(std::span<const float> values, TensorView view) override;
  void Download(TensorView view, std::span<float> values) const override;
  DecodeKernel decode_kernel() const override { return decode_kernel_; }
  Status UseDecodeKernel(DecodeKernel kernel) override;
  /// "ranged" (ranged_prompt.h), "flash" (flash_attention.h) or "prompt" (prompt_attention.h).
  std::string_view prompt_kernel() const override;

  TensorView residual() override { return View(residual_, DType::kF32, shape_.hidden); }
  TensorView queries() override { return View(queries_, dtype_, QueryCols()); }
  TensorView attended() override { return View(attended_, dtype_, QueryCols()); }
  TensorView mlp_hidden() override { return View(mlp_hidden_, dtype_, shape_.intermediate); }

  void BeginStep(const StepBatch& batch) override;
  void Embed(const EmbeddingWeight& embedding, TensorView residual) override;
  void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                         TensorView queries) override;
  void Attention(int32_t layer, TensorView queries, TensorView attended) override;
  void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) override;
  void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) override;
  TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head, TensorView residual,
                      std::span<const int32_t> tokens) override;
  /// Whether HeadTokens is there: the linear layers are `invariant`.
  bool finds_tokens_in_head() const { return fused_ != nullptr; }
  /// NormHead and the first largest logit of each token, by LaunchArgmax's rules (argmax.h),
  /// without writing any logits. Token i is that of the engine's row slots[i], and goes to
  /// drawn_tokens(turn)[i]. Before FinishLayers only as UseGraphs was told.
  void HeadTokens(const LinearWeight& head, std::span<const int32_t> tokens,
                  std::span<const int32_t> slots, int turn);
  StepCost Cost() const override;
  double MeasureRate() override;
  double MeasureBandwidth() override;
  /// Records the calls as a graph, and times launches of it.
  Expected<std::vector<double>> MeasureSeconds(const std::function<void()>& calls, int32_t repeats,
                                               KernelOverlap overlap) override;
  bool OverlapsKernels() const override { return device_.compute_major >= 9; }
  std::unique_ptr<FiniteScan> MakeFiniteScan() override;
  std::unique_ptr<OpsClock> MakeClock() override;
  bool MarkAttention(OpsClock* clock) override;
  void ParallelFor(int64_t items, const std::function<void(int64_t)>& body) override;

  /// The first error since the start, or ok. Once there is one, calls do nothing.
  const Status& status() const { return status_; }
  const CudaStream& stream() const { return stream_; }
  const CudaDeviceInfo& device() const { return device_; }
  CudaType type() const { return type_; }
  /// The token that each of the engine's rows sampled last, in device memory [max_rows].
  int32_t* last_tokens() const { return last_tokens_.As<int32_t>(); }
  /// Host memory [max_rows] that the device writes a step's tokens to. The two steps that may be in
  /// flight have different ones, turn 0 and 1.
  int32_t* drawn_tokens(int turn) const {
    return drawn_tokens_.As<int32_t>() + static_cast<int64_t>(turn) * max_rows_;
  }
  CudaSampler& sampler() { return *sampler_; }
  /// Whether the layers of steps that begin now, and allow it (docs/step.md), are recorded and
  /// launched as graphs. Only where nothing but this object's calls of a step stands between
  /// BeginStep and FinishLayers, which ends them then. `draws`: for how many of the step's first
  /// tokens HeadTokens will be called between them, as a part of the graph; 0: it will not be.
  void UseGraphs(bool use, const GraphDraws& draws = {}) {
    use_graphs_ = use;
    graph_draws_ = draws;
  }
  /// Launches the layers that were recorded or found as a graph, if they were. False: they could
  /// not be recorded, and nothing of them is queued. The step must begin again; no graph is used
  /// any more.
  bool FinishLayers();
  /// Kinds of steps that a graph stands for now.
  size_t graphs() const { return graphs_.size(); }
  /// Bytes of the fixed workspace.
  int64_t workspace_bytes() const;

 private:
  /// All weights of one shape that are used alike.
  struct LinearShape {
    std::vector<const LinearWeight*> weights;
    int64_t rows = 0;
    int64_t cols = 0;
    LinearOutput output = LinearOutput::kElement;
    int32_t max_tokens = 0;
  };
  /// A prompt chunk that FlashAttention attends for.
  struct FlashChunk {
    FlashDecode plan;
    int32_t row = 0;
    int32_t token = 0;  ///< its first
  };

  CudaOps(const CudaOpsOptions& options, CudaDeviceInfo device);
  Status Initialise();

  int32_t PagesPerRow() const {
    return std::min(cache_.pages(), CeilDiv(max_model_len_, cache_.page_size()));
  }
  int64_t QueryCols() const { return int64_t{shape_.heads} * shape_.head_dim; }
  int64_t QkvCols() const { return int64_t{shape_.heads + 2 * shape_.kv_heads} * shape_.head_dim; }
  TensorView View(const DeviceBuffer& buffer, DType dtype, int64_t cols) const {
    return {.data = buffer.data(), .dtype = dtype, .rows = tokens_, .cols = cols};
  }
  AttentionShape attention_shape() const {
    return {.heads = shape_.heads, .kv_heads = shape_.kv_heads, .head_dim = shape_.head_dim};
  }
  /// Runs `launch` unless something failed before, and keeps what CUDA says to it.
  template <typename Launch>
  void Enqueue(std::string_view what, Launch&& launch);
  void Note(const Status& status) const;
  /// gains: for each column, or null.
  std::unique_ptr<CudaWeight> PackRows(std::initializer_list<const RowSource*> sources,
                                       const float* gains = nullptr);
  /// `norm`: of the input, or null.
  std::unique_ptr<LinearWeight> PackLinear(std::initializer_list<const RowSource*> sources,
                                           const VectorWeight* norm, FusedLayers::Use use,
                                           LinearOutput output);
  Status TuneLinear();
  /// Whether prompt chunks take the ranged prompt kernel: with the decode kernel in use their pages
  /// are tiled, and the device has it.
  bool RangesPrompts() const;
  /// Whether they take FlashAttention's: it was asked for, and their pages are plain.
  bool FlashesPrompts() const;
  Status CheckDecodeKernel(DecodeKernel kernel, int32_t page_size) const;
  /// What FlashAttention is told of `rows` rows whose block tables have `table_pages` entries.
  FlashDecodeShape FlashShape(int32_t rows, int32_t table_pages, int32_t page_size) const;
  /// Gets ready for decode steps by `kernel`: workspaces, and a cache that can change its layout.
  Status PrepareDecode(DecodeKernel kernel);
  /// Plans the step's decode tokens for the decode kernel.
  Status PlanDecode();
  Status PlanFlash();
  Status PlanFlashPrompts(const StepBatch& batch);
  /// FlashAttention over the rows from `row` on, whose tokens begin at `token`.
  Status RunFlash(const FlashDecode& plan, int32_t row, int32_t token, const CachePages& pages,
                  TensorView queries, TensorView attended);
  Status PlanSplit();
  /// The draws that UseGraphs was told of, in steps that may be a graph.
  GraphDraws DrawsInGraph() const;
  /// Tokens of the head in the step's graph, as padded; 0: it is not in there.
  int32_t GraphSamples() const;
  /// Begins to record the step's layers, or finds their graph, where a graph can stand for them.
  void BeginLayers();
  /// What the ranged prompt kernel is told at the start.
  PromptPlanLimits PromptLimits() const;
  /// The same for the kernel itself, where the device has it.
  Status PrepareRangedPrompt();
  /// normed_ = the norm of all tokens' residual.
  void NormRows(const VectorWeight& weight, TensorView residual);
  void Multiply(const LinearWeight& weight, const void* input, int32_t tokens, LinearOutput kind,
                void* output);
  /// Makes a call of the fused layers, unless something failed before or a graph stands for it.
  template <typename Call>
  void Fused(Call&& call);

  const DecoderShape shape_;
  const CudaType type_;
  const DType dtype_;
  const CudaDeviceInfo device_;
  const int32_t max_tokens_;
  const int32_t max_rows_;
  const int32_t max_samples_;
  const int32_t max_model_len_;
  const LinearLayers linear_layers_;
  const PromptKernel prompt_kernel_;
  DecodeKernel decode_kernel_;
  ThreadPool pool_;
  CudaStream stream_;
  std::unique_ptr<CudaLinear> linear_;         ///< One of these two.
  std::unique_ptr<FusedLayers> fused_;         ///<
  std::optional<WeightUpload> weight_upload_;  ///< While weights are loaded.
  std::optional<StepUpload> step_upload_;
  std::optional<CudaSampler> sampler_;
  CudaCache cache_;

  int32_t prompt_groups_ = 1;
  DeviceBuffer rotations_;  ///< [max_model_len, head_dim / 2, 2] fp32
  DeviceBuffer residual_;
  DeviceBuffer normed_;  ///< For cuBLASLt, as gate_up_.
  DeviceBuffer qkv_;     ///< fp32
  DeviceBuffer queries_;
  DeviceBuffer attended_;
  DeviceBuffer gate_up_;
  DeviceBuffer mlp_hidden_;
  DeviceBuffer logits_;
  DeviceBuffer last_tokens_;
  PinnedBuffer drawn_tokens_;  ///< [2, max_rows]
  DeviceBuffer flash_workspace_;

  bool use_graphs_ = false;
  GraphDraws graph_draws_;
  StepGraphs graphs_;
  StepArrays step_;
  int32_t tokens_ = 0;                    ///< Of the step, without its padding.
  std::optional<FlashDecode> flash_;      ///< This step's plan, where the decode kernel is `flash`.
  std::vector<FlashChunk> flash_chunks_;  ///< This step's, where FlashesPrompts.
  /// Once the decode kernel was `split`, on devices that have it: prompts on tiled pages.
  std::optional<RangedPrompt> ranged_prompt_;
  std::optional<SplitDecode> split_;  ///< Once the decode kernel was `split`.
  int64_t decode_positions_ = 0;      ///< Contexts of the step's decode rows, summed.
  double samples_ = 0;                ///< Logits asked for in this step.
  AttentionWork attention_work_;
  OpsClock* attention_clock_ = nullptr;  ///< Marked between the two attention kernels.
  std::vector<LinearShape> linear_shapes_;
  double layer_bytes_ = 0;
  double head_bytes_ = 0;
  mutable Status status_;
};

}  // namespace decant
