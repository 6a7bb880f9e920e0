#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/cpu/host_vector.h"
#include "ops/ops.h"

namespace decant {

/// The operations as plain fp32 loops, in the order that one would write them down: what every
/// backend is judged against. Slow, single-threaded, for tests only. K and V are fp32 as well, NaN
/// wherever nothing was written.
class OracleOps : public Ops {
 public:
  /// How the oracle computes: exactly, or with everything that a bf16 or fp16 backend stores
  /// rounded to it (weights, inputs of linear layers, q, K and V), which is the same-precision
  /// reference that a backend's error is judged by.
  enum class Rounding { kNone, kBf16, kF16 };

  OracleOps(const DecoderShape& shape, int32_t max_tokens, Rounding rounding = Rounding::kNone);

  std::string Describe() const override { return "oracle"; }

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
  Status FinishLoading() override { return {}; }

  Status AllocateCache(int32_t pages, int32_t page_size) override;
  void PoisonPage(int32_t page) override;
  void FillCache(const RandomRows& values) override;
  /// In which nothing written is lost; with kBf16, what NormQkvRopeAppend writes is rounded before.
  DType cache_type() const override { return DType::kF32; }
  void WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                 std::span<const float> values) override;
  void ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                std::span<float> values) const override;

  void Upload(std::span<const float> values, TensorView view) override;
  void Download(TensorView view, std::span<float> values) const override;

  /// All decode kernels are one and the same here.
  DecodeKernel decode_kernel() const override { return decode_kernel_; }
  Status UseDecodeKernel(DecodeKernel kernel) override {
    decode_kernel_ = kernel;
    return {};
  }

  TensorView residual() override { return View(residual_, shape_.hidden); }
  TensorView queries() override { return View(queries_, shape_.heads * shape_.head_dim); }
  TensorView attended() override { return View(attended_, shape_.heads * shape_.head_dim); }
  TensorView mlp_hidden() override { return View(mlp_hidden_, shape_.intermediate); }

  void BeginStep(const StepBatch& batch) override { batch_ = &batch; }
  void Embed(const EmbeddingWeight& embedding, TensorView residual) override;
  void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                         TensorView queries) override;
  void Attention(int32_t layer, TensorView queries, TensorView attended) override;
  void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) override;
  void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) override;
  TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head, TensorView residual,
                      std::span<const int32_t> tokens) override;
  StepCost Cost() const override { return {}; }
  double MeasureRate() override { return 0; }
  double MeasureBandwidth() override { return 0; }
  void ParallelFor(int64_t items, const std::function<void(int64_t)>& body) override;

 private:
  TensorView View(std::vector<float>& memory, int64_t cols) const;
  /// The RMSNorm of weight.size() values, not rounded.
  std::vector<float> Norm(const float* row, std::span<const float> weight) const;
  std::vector<float> NormRow(const float* row, std::span<const float> weight) const;
  float Round(float value) const {
    switch (rounding_) {
      case Rounding::kBf16:
        return ToFloat(ToBf16(value));
      case Rounding::kF16:
        return ToFloat(ToF16(value));
      case Rounding::kNone:
        break;
    }
    return value;
  }
  void Rotate(float* head, int32_t position) const;
  /// Where a page's first slot begins in cache_; slots hold [kv_heads][K, V][head_dim].
  int64_t PageStart(int32_t layer, int32_t page) const {
    return (int64_t{layer} * pages_ + page) * page_size_ * shape_.kv_heads * 2 * shape_.head_dim;
  }
  /// The place of a position's K (part 0) or V (part 1) of a head.
  float* Slot(int32_t layer, const BatchRow& row, int32_t position, int32_t kv_head, int32_t part);

  DecoderShape shape_;
  Rounding rounding_;
  DecodeKernel decode_kernel_ = DecodeKernel::kRows;
  int32_t pages_ = 0;
  int32_t page_size_ = 0;
  std::vector<float> cache_;
  std::vector<float> residual_;
  std::vector<float> queries_;
  std::vector<float> attended_;
  std::vector<float> mlp_hidden_;
  std::vector<float> logits_;
  const StepBatch* batch_ = nullptr;
};

/// Attention of one query head [head_dim] against keys and values given by position, in fp32: the
/// definition.
std::vector<float> AttendByDefinition(std::span<const float> query, int32_t keys,
                                      const std::function<const float*(int32_t position)>& key,
                                      const std::function<const float*(int32_t position)>& value);

}  // namespace decant
