#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/ops.h"

namespace decant {

/// Passes every operation on to another implementation: what watches or disturbs a backend
/// overrides the few operations that it is about.
class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  std::string Describe() const override { return inner_->Describe(); }
  bool watched() const override { return true; }

  std::unique_ptr<LinearWeight> PackQkv(const VectorWeight& norm, const RowSource& q,
                                        const RowSource& k, const RowSource& v) override {
    return inner_->PackQkv(norm, q, k, v);
  }
  std::unique_ptr<LinearWeight> PackGateUp(const VectorWeight& norm, const RowSource& gate,
                                           const RowSource& up) override {
    return inner_->PackGateUp(norm, gate, up);
  }
  std::unique_ptr<LinearWeight> PackProjection(const RowSource& weight) override {
    return inner_->PackProjection(weight);
  }
  std::unique_ptr<LinearWeight> PackHead(const VectorWeight& norm,
                                         const RowSource& weight) override {
    return inner_->PackHead(norm, weight);
  }
  std::unique_ptr<EmbeddingWeight> PackEmbedding(const RowSource& weight) override {
    return inner_->PackEmbedding(weight);
  }
  std::unique_ptr<VectorWeight> PackVector(std::span<const float> values) override {
    return inner_->PackVector(values);
  }
  Status FinishLoading() override { return inner_->FinishLoading(); }

  Status AllocateCache(int32_t pages, int32_t page_size) override {
    return inner_->AllocateCache(pages, page_size);
  }
  void PoisonPage(int32_t page) override { inner_->PoisonPage(page); }
  void FillCache(const RandomRows& values) override { inner_->FillCache(values); }
  DType cache_type() const override { return inner_->cache_type(); }
  void WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                 std::span<const float> values) override {
    inner_->WritePage(layer, page, keys, values);
  }
  void ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                std::span<float> values) const override {
    inner_->ReadPage(layer, page, keys, values);
  }

  void Upload(std::span<const float> values, TensorView view) override {
    inner_->Upload(values, view);
  }
  void Download(TensorView view, std::span<float> values) const override {
    inner_->Download(view, values);
  }

  DecodeKernel decode_kernel() const override { return inner_->decode_kernel(); }
  Status UseDecodeKernel(DecodeKernel kernel) override { return inner_->UseDecodeKernel(kernel); }
  std::string_view prompt_kernel() const override { return inner_->prompt_kernel(); }

  TensorView residual() override { return inner_->residual(); }
  TensorView queries() override { return inner_->queries(); }
  TensorView attended() override { return inner_->attended(); }
  TensorView mlp_hidden() override { return inner_->mlp_hidden(); }

  void BeginStep(const StepBatch& batch) override { inner_->BeginStep(batch); }
  void Embed(const EmbeddingWeight& embedding, TensorView residual) override {
    inner_->Embed(embedding, residual);
  }
  void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                         TensorView queries) override {
    inner_->NormQkvRopeAppend(layer, weights, residual, queries);
  }
  void Attention(int32_t layer, TensorView queries, TensorView attended) override {
    inner_->Attention(layer, queries, attended);
  }
  void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) override {
    inner_->ProjectAdd(weight, input, residual);
  }
  void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) override {
    inner_->NormGateUpSilu(weights, residual, out);
  }
  TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head, TensorView residual,
                      std::span<const int32_t> tokens) override {
    return inner_->NormHead(final_norm, head, residual, tokens);
  }
  StepCost Cost() const override { return inner_->Cost(); }
  double MeasureRate() override { return inner_->MeasureRate(); }
  double MeasureBandwidth() override { return inner_->MeasureBandwidth(); }
  Expected<std::vector<double>> MeasureSeconds(const std::function<void()>& calls, int32_t repeats,
                                               KernelOverlap overlap) override {
    return inner_->MeasureSeconds(calls, repeats, overlap);
  }
  bool OverlapsKernels() const override { return inner_->OverlapsKernels(); }
  std::unique_ptr<FiniteScan> MakeFiniteScan() override { return inner_->MakeFiniteScan(); }
  std::vector<ActivationFault> TakeFaults() override { return inner_->TakeFaults(); }
  std::unique_ptr<OpsClock> MakeClock() override { return inner_->MakeClock(); }
  bool MarkAttention(OpsClock* clock) override { return inner_->MarkAttention(clock); }
  void EndPart(StepPart part) override { inner_->EndPart(part); }
  void ParallelFor(int64_t items, const std::function<void(int64_t)>& body) override {
    inner_->ParallelFor(items, body);
  }

 protected:
  Ops& inner() { return *inner_; }
  const Ops& inner() const { return *inner_; }

 private:
  std::unique_ptr<Ops> inner_;
};

}  // namespace decant
