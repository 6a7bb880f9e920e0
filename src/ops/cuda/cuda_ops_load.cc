// Loading: how CudaOps packs weights.

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/device.h"

namespace decant {

std::unique_ptr<CudaWeight> CudaOps::PackRows(std::initializer_list<const RowSource*> sources,
                                              const float* gains) {
  if (status_.ok()) {
    Expected<std::unique_ptr<CudaWeight>> weight = weight_upload_->Upload(sources, gains, stream_);
    if (weight.ok()) return std::move(weight).value();
    Note(weight.status());
  }
  return std::make_unique<CudaWeight>(DeviceBuffer(), 0, 0);  // status_ says why
}

std::unique_ptr<LinearWeight> CudaOps::PackLinear(std::initializer_list<const RowSource*> sources,
                                                  const VectorWeight* norm, FusedLayers::Use use,
                                                  LinearOutput output) {
  const bool gains = fused_ && norm != nullptr;
  std::unique_ptr<CudaWeight> weight =
      PackRows(sources, gains ? static_cast<const CudaVector&>(*norm).data() : nullptr);
  if (fused_) {
    if (status_.ok()) {
      Expected<std::unique_ptr<LinearWeight>> packed = fused_->Pack(*weight, use);
      if (packed.ok()) return std::move(packed).value();
      Note(packed.status());
    }
    return std::make_unique<CudaPackedWeight>(PackedWeight());  // status_ says why
  }
  auto same = std::ranges::find_if(linear_shapes_, [&](const LinearShape& shape) {
    return shape.output == output && shape.rows == weight->rows && shape.cols == weight->cols;
  });
  if (same == linear_shapes_.end()) {
    linear_shapes_.push_back(
        {.weights = {},
         .rows = weight->rows,
         .cols = weight->cols,
         .output = output,
         .max_tokens = use == FusedLayers::Use::kHead ? max_samples_ : max_tokens_});
    same = linear_shapes_.end() - 1;
  }
  same->weights.push_back(weight.get());
  return weight;
}

std::unique_ptr<LinearWeight> CudaOps::PackQkv(const VectorWeight& norm, const RowSource& q,
                                               const RowSource& k, const RowSource& v) {
  auto weight = PackLinear({&q, &k, &v}, &norm, FusedLayers::Use::kQkv, LinearOutput::kFloat);
  layer_bytes_ += static_cast<double>(weight->bytes());
  return weight;
}

std::unique_ptr<LinearWeight> CudaOps::PackGateUp(const VectorWeight& norm, const RowSource& gate,
                                                  const RowSource& up) {
  auto weight = PackLinear({&gate, &up}, &norm, FusedLayers::Use::kGateUp, LinearOutput::kElement);
  layer_bytes_ += static_cast<double>(weight->bytes());
  return weight;
}

std::unique_ptr<LinearWeight> CudaOps::PackProjection(const RowSource& source) {
  auto weight = PackLinear({&source}, nullptr, FusedLayers::Use::kProjection, LinearOutput::kAdd);
  layer_bytes_ += static_cast<double>(weight->bytes());
  return weight;
}

std::unique_ptr<LinearWeight> CudaOps::PackHead(const VectorWeight& norm, const RowSource& source) {
  auto weight = PackLinear({&source}, &norm, FusedLayers::Use::kHead, LinearOutput::kFloat);
  head_bytes_ += static_cast<double>(weight->bytes());
  return weight;
}

std::unique_ptr<EmbeddingWeight> CudaOps::PackEmbedding(const RowSource& source) {
  return PackRows({&source});
}

std::unique_ptr<VectorWeight> CudaOps::PackVector(std::span<const float> values) {
  Expected<DeviceBuffer> buffer = DeviceBuffer::Allocate(values.size_bytes(), "weights");
  if (!buffer.ok()) {
    Note(buffer.status());
    return std::make_unique<CudaVector>(DeviceBuffer());
  }
  Note(CudaStatus(CopyToDevice(buffer->data(), values.data(), values.size_bytes()),
                  "uploading a vector"));
  return std::make_unique<CudaVector>(std::move(buffer).value());
}

Status CudaOps::FinishLoading() {
  DECANT_RETURN_IF_ERROR(status_);
  DECANT_RETURN_IF_ERROR(stream_.Synchronize());
  weight_upload_.reset();
  return TuneLinear();
}

Status CudaOps::TuneLinear() {
  if (fused_) return fused_->Tune();
  // What the workspace holds does not matter yet: each product's inputs and outputs fit into these.
  size_t bytes = 0;
  for (const LinearShape& shape : linear_shapes_) {
    bytes = std::max(bytes, static_cast<size_t>(shape.max_tokens) * sizeof(float) *
                                static_cast<size_t>(std::max(shape.rows, shape.cols)));
  }
  constexpr std::string_view kWhat = "choosing linear layers' algorithms";
  DECANT_ASSIGN_OR_RETURN(const DeviceBuffer input, DeviceBuffer::Allocate(bytes, kWhat));
  DECANT_ASSIGN_OR_RETURN(const DeviceBuffer output, DeviceBuffer::Allocate(bytes, kWhat));
  DECANT_RETURN_IF_ERROR(CudaStatus(FillDevice(input.data(), 0, input.size()), "clearing memory"));
  std::vector<CudaLinear::TuneCase> cases;
  for (const LinearShape& shape : linear_shapes_) {
    cases.push_back({.weights = {}, .output = shape.output, .max_tokens = shape.max_tokens});
    for (const LinearWeight* weight : shape.weights) {
      cases.back().weights.push_back(static_cast<const CudaWeight*>(weight));
    }
  }
  return linear_->Tune(cases, input.data(), output.data());
}

}  // namespace decant
