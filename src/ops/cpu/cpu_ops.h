#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/cpu/attention.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/host_vector.h"
#include "ops/cpu/kv_cache.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/read_bandwidth.h"
#include "ops/cpu/thread_pool.h"
#include "ops/ops.h"
#include "tensor/host_buffer.h"

namespace decant {

struct CpuOpsOptions {
  DecoderShape shape;
  DecodeKernel decode_kernel = DecodeKernel::kSplit;
  LinearLayers linear = LinearLayers::kLibrary;
  WeightCopies weight_copies = WeightCopies::kKeep;
  int32_t threads = 1;
  int32_t max_tokens = 0;   ///< Tokens of one step at most.
  int32_t max_samples = 0;  ///< Tokens whose logits are wanted at a time, at most.
};

/// The operations on the CPU: linear layers by oneDNN in bf16 where the processor has bf16 products
/// and in fp32 elsewhere, attention and the small operations by the kernels of cpu_kernels.h, K and
/// V in bf16. ONEDNN_MAX_CPU_ISA lowers what both may use.
class CpuOps : public Ops {
 public:
  explicit CpuOps(const CpuOpsOptions& options);

  std::string Describe() const override;

  std::unique_ptr<LinearWeight> PackQkv(const VectorWeight& norm, const RowSource& q,
                                        const RowSource& k, const RowSource& v) override;
  std::unique_ptr<LinearWeight> PackGateUp(const VectorWeight& norm, const RowSource& gate,
                                           const RowSource& up) override;
  std::unique_ptr<LinearWeight> PackProjection(const RowSource& weight) override;
  std::unique_ptr<LinearWeight> PackHead(const VectorWeight& norm,
                                         const RowSource& weight) override;
  std::unique_ptr<EmbeddingWeight> PackEmbedding(const RowSource& weight) override;
  std::unique_ptr<VectorWeight> PackVector(std::span<const float> values) override {
    return std::make_unique<HostVector>(values);
  }
  /// Invalid argument: linear layers in int8 are asked for, and no weight has quantised blocks.
  Status FinishLoading() override;

  Status AllocateCache(int32_t pages, int32_t page_size) override;
  void PoisonPage(int32_t page) override { cache_.Poison(page); }
  void FillCache(const RandomRows& values) override { cache_.Fill(values, pool_); }
  DType cache_type() const override { return DType::kBf16; }
  void WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                 std::span<const float> values) override {
    cache_.WritePage(layer, page, keys, values);
  }
  void ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                std::span<float> values) const override {
    cache_.ReadPage(layer, page, keys, values);
  }

  void Upload(std::span<const float> values, TensorView view) override;
  void Download(TensorView view, std::span<float> values) const override;

  DecodeKernel decode_kernel() const override { return attention_.kernel(); }
  Status UseDecodeKernel(DecodeKernel kernel) override;

  TensorView residual() override { return residual_.View(batch_->tokens()); }
  TensorView queries() override { return queries_.View(batch_->tokens()); }
  TensorView attended() override { return attended_.View(batch_->tokens()); }
  TensorView mlp_hidden() override { return mlp_hidden_.View(batch_->tokens()); }

  void BeginStep(const StepBatch& batch) override;
  void Embed(const EmbeddingWeight& embedding, TensorView residual) override;
  void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                         TensorView queries) override;
  void Attention(int32_t layer, TensorView queries, TensorView attended) override;
  void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) override;
  void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) override;
  TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head, TensorView residual,
                      std::span<const int32_t> tokens) override;
  StepCost Cost() const override;
  double MeasureRate() override { return linear_.MeasureRate(); }
  double MeasureBandwidth() override { return MeasureReadBandwidth(pool_.threads()); }
  void ParallelFor(int64_t items, const std::function<void(int64_t)>& body) override;

 private:
  /// A matrix of the workspace, with rows past the last for padded blocks.
  struct Workspace {
    Workspace(int32_t max_rows, int64_t columns, DType type)
        : dtype(type),
          cols(columns),
          buffer(static_cast<size_t>(max_rows + LinearEngine::kPadding) * columns *
                 DTypeSize(type)) {}
    TensorView View(int64_t rows) {
      return {.data = buffer.data(), .dtype = dtype, .rows = rows, .cols = cols};
    }
    DType dtype;
    int64_t cols;
    HostBuffer buffer;
  };

  /// normed_ row i = the norm of residual row token_of(i), for i in [0, rows).
  template <typename TokenOf>
  TensorView Norm(std::span<const float> weight, TensorView residual, int32_t rows,
                  TokenOf&& token_of);
  void NormRow(const float* row, std::span<const float> weight, TensorView out, int32_t index);

  /// What reading and using some weights once costs.
  struct WeightCost {
    double bytes = 0;
    double compact_bytes = 0;  ///< where few tokens use them
    double cells = 0;
  };
  /// Bytes read when so many tokens use the weights at a time.
  double BytesRead(const WeightCost& weights, int64_t tokens) const;
  std::unique_ptr<LinearWeight> Pack(const RowSource& source, int32_t slice_rows, WeightCost& cost);

  DecoderShape shape_;
  CpuLevel level_;
  const CpuKernels& kernels_;
  DType dtype_;
  LinearLayers linear_layers_;
  ThreadPool pool_;
  LinearEngine linear_;
  CpuAttention attention_;
  CpuKvCache cache_;

  Workspace residual_;
  Workspace normed_;
  Workspace queries_;
  Workspace attended_;
  Workspace mlp_hidden_;
  Workspace logits_;
  std::vector<float> cos_;  // [max_positions, head_dim / 2]
  std::vector<float> sin_;

  const StepBatch* batch_ = nullptr;
  std::vector<int32_t> token_pages_;  // [tokens], where a token's K and V go
  std::vector<int32_t> token_slots_;
  int32_t int8_weights_ = 0;  // how many take their inputs in 8 bits
  WeightCost layer_cost_;
  WeightCost head_cost_;
  double head_bytes_ = 0;  // of this step's heads so far
  int64_t head_tokens_ = 0;
};

}  // namespace decant
