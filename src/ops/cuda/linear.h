#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "ops/cuda/cublaslt_library.h"
#include "ops/cuda/device.h"
#include "ops/cuda/linear_output.h"
#include "ops/cuda/step_arrays.h"
#include "ops/ops.h"

namespace decant {

/// A weight matrix [rows, cols] in device memory, row by row.
class CudaWeight : public LinearWeight, public EmbeddingWeight {
 public:
  CudaWeight(DeviceBuffer memory, int64_t weight_rows, int64_t weight_cols)
      : buffer(std::move(memory)), rows(weight_rows), cols(weight_cols) {}
  int64_t bytes() const override { return static_cast<int64_t>(buffer.size()); }

  const DeviceBuffer buffer;
  const int64_t rows;
  const int64_t cols;
};

/// A vector in device memory, fp32.
class CudaVector : public VectorWeight {
 public:
  explicit CudaVector(DeviceBuffer values) : values_(std::move(values)) {}
  const float* data() const { return values_.As<float>(); }

 private:
  DeviceBuffer values_;
};

/// Linear layers through cuBLASLt, fp32 sums. Which of the library's algorithms runs is chosen by
/// measurement, for each shape of a weight and for about twenty numbers of tokens; between them the
/// choice of the next larger one serves.
class CudaLinear {
 public:
  /// Errors: the library cannot be opened (what was looked for), or does not start.
  static Expected<std::unique_ptr<CudaLinear>> Create(CudaType type, cudaStream_t stream);
  ~CudaLinear();
  CudaLinear(const CudaLinear&) = delete;
  CudaLinear& operator=(const CudaLinear&) = delete;

  /// Measures and chooses, for every shape among `weights` and up to `max_tokens` tokens. `input`
  /// must hold [max_tokens, largest cols] elements, `output` [max_tokens, largest rows] floats;
  /// what they hold is lost. About half a second; waits for the device.
  struct TuneCase {
    std::vector<const CudaWeight*> weights;  ///< of one shape, such as all layers' down projections
    LinearOutput output = LinearOutput::kElement;
    int32_t max_tokens = 0;
  };
  Status Tune(const std::vector<TuneCase>& cases, void* input, void* output);

  /// output [tokens, weight.rows] = (or +=) input [tokens, weight.cols] * weight^T. Does not wait.
  Status Run(const CudaWeight& weight, const void* input, int32_t tokens, LinearOutput kind,
             void* output);

  std::string Describe() const;
  int64_t workspace_bytes() const { return static_cast<int64_t>(workspace_.size()); }

 private:
  struct Product;  // layouts and algorithm of one shape and number of tokens
  using ShapeKey = std::tuple<int64_t, int64_t, LinearOutput>;  // rows, cols
  using Key = std::pair<ShapeKey, int32_t>;                     // and tokens

  CudaLinear(CudaType type, cudaStream_t stream, const CublasLtLibrary& library);

  Expected<std::unique_ptr<Product>> MakeProduct(const ShapeKey& shape, int32_t tokens) const;
  Expected<Product*> FindProduct(const ShapeKey& shape, int32_t tokens);
  Status Enqueue(const Product& product, const void* weight, const void* input, void* output);
  Status TuneOne(const TuneCase& tune, int32_t tokens, void* input, void* output);

  const CudaType type_;
  const cudaStream_t stream_;
  const CublasLtLibrary& library_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  DeviceBuffer workspace_;
  std::map<ShapeKey, std::map<int32_t, cublasLtMatmulAlgo_t>> chosen_;  // by largest tokens
  std::map<Key, std::unique_ptr<Product>> products_;
};

}  // namespace decant
