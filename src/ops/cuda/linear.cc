#include "ops/cuda/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace decant {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
/// Algorithms that the library proposes and that are measured, for one shape and token count.
constexpr int kCandidates = 8;
/// Token counts that algorithms are chosen for.
constexpr std::array<int32_t, 17> kTokenSteps = {1,   2,   4,   8,   16,  32,  48,   64,  96,
                                                 128, 192, 256, 384, 512, 576, 1024, 2048};

Status LtStatus(const CublasLtLibrary& library, cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Error(StatusCode::kInternal, "cuBLASLt, {}: {}", what, library.get_status_string(status));
}

cudaDataType_t LtType(CudaType type) { return type == CudaType::kF16 ? CUDA_R_16F : CUDA_R_16BF; }

}  // namespace

/// In cuBLASLt's column-major words: output^T [rows, tokens] = weight [rows, cols] input^T [cols,
/// tokens], where a row-major matrix is the transpose of a column-major one.
struct CudaLinear::Product {
  explicit Product(const CublasLtLibrary& lt) : library(lt) {}
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    for (cublasLtMatrixLayout_t layout : {weight, input, output}) {
      if (layout != nullptr) library.matrix_layout_destroy(layout);
    }
  }

  const CublasLtLibrary& library;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t input = nullptr;
  cublasLtMatrixLayout_t output = nullptr;
  bool adds = false;
  cublasLtMatmulAlgo_t algorithm{};
};

CudaLinear::CudaLinear(CudaType type, cudaStream_t stream, const CublasLtLibrary& library)
    : type_(type), stream_(stream), library_(library) {}

CudaLinear::~CudaLinear() {
  products_.clear();
  if (preference_ != nullptr) library_.matmul_preference_destroy(preference_);
  if (description_ != nullptr) library_.matmul_desc_destroy(description_);
  if (handle_ != nullptr) library_.destroy(handle_);
}

Expected<std::unique_ptr<CudaLinear>> CudaLinear::Create(CudaType type, cudaStream_t stream) {
  DECANT_ASSIGN_OR_RETURN(const CublasLtLibrary* library, LoadCublasLt());
  std::unique_ptr<CudaLinear> linear(new CudaLinear(type, stream, *library));
  DECANT_RETURN_IF_ERROR(LtStatus(*library, library->create(&linear->handle_), "starting"));
  DECANT_RETURN_IF_ERROR(LtStatus(
      *library, library->matmul_desc_create(&linear->description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "describing a product"));
  const cublasOperation_t transpose = CUBLAS_OP_T;
  DECANT_RETURN_IF_ERROR(
      LtStatus(*library,
               library->matmul_desc_set_attribute(linear->description_, CUBLASLT_MATMUL_DESC_TRANSA,
                                                  &transpose, sizeof(transpose)),
               "describing a product"));
  DECANT_RETURN_IF_ERROR(LtStatus(*library, library->matmul_preference_create(&linear->preference_),
                                  "describing a product"));
  const size_t bytes = kWorkspaceBytes;
  DECANT_RETURN_IF_ERROR(LtStatus(
      *library,
      library->matmul_preference_set_attribute(
          linear->preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
      "describing a product"));
  DECANT_ASSIGN_OR_RETURN(linear->workspace_,
                          DeviceBuffer::Allocate(kWorkspaceBytes, "linear layers' workspace"));
  return linear;
}

Expected<std::unique_ptr<CudaLinear::Product>> CudaLinear::MakeProduct(const ShapeKey& shape,
                                                                       int32_t tokens) const {
  const auto [rows, cols, kind] = shape;
  auto product = std::make_unique<Product>(library_);
  const auto layout = [&](cublasLtMatrixLayout_t* out, cudaDataType_t type, int64_t height,
                          int64_t width) {
    return LtStatus(library_, library_.matrix_layout_create(out, type, height, width, height),
                    "describing a matrix");
  };
  const cudaDataType_t element = LtType(type_);
  DECANT_RETURN_IF_ERROR(layout(&product->weight, element, cols, rows));
  DECANT_RETURN_IF_ERROR(layout(&product->input, element, cols, tokens));
  DECANT_RETURN_IF_ERROR(layout(
      &product->output, kind == LinearOutput::kElement ? element : CUDA_R_32F, rows, tokens));
  product->adds = kind == LinearOutput::kAdd;
  return product;
}

Status CudaLinear::Enqueue(const Product& product, const void* weight, const void* input,
                           void* output) {
  const float one = 1;
  const float keep = product.adds ? 1 : 0;
  return LtStatus(
      library_,
      library_.matmul(handle_, description_, &one, weight, product.weight, input, product.input,
                      &keep, output, product.output, output, product.output, &product.algorithm,
                      workspace_.data(), kWorkspaceBytes, stream_),
      "a linear layer");
}

Expected<CudaLinear::Product*> CudaLinear::FindProduct(const ShapeKey& shape, int32_t tokens) {
  std::unique_ptr<Product>& found = products_[{shape, tokens}];
  if (found != nullptr) return found.get();
  DECANT_ASSIGN_OR_RETURN(std::unique_ptr<Product> product, MakeProduct(shape, tokens));
  const auto& choices = chosen_[shape];
  const auto choice = choices.lower_bound(tokens);
  if (choice != choices.end()) {
    product->algorithm = choice->second;
    cublasLtMatmulHeuristicResult_t result{};
    if (library_.matmul_algo_check(handle_, description_, product->weight, product->input,
                                   product->output, product->output, &product->algorithm,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= kWorkspaceBytes) {
      found = std::move(product);
      return found.get();
    }
  }
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  DECANT_RETURN_IF_ERROR(
      LtStatus(library_,
               library_.matmul_algo_get_heuristic(handle_, description_, product->weight,
                                                  product->input, product->output, product->output,
                                                  preference_, 1, &result, &count),
               "choosing an algorithm"));
  if (count == 0) {
    return Error(StatusCode::kInternal, "cuBLASLt has no algorithm for {} x {} and {} tokens",
                 std::get<0>(shape), std::get<1>(shape), tokens);
  }
  product->algorithm = result.algo;
  found = std::move(product);
  return found.get();
}

Status CudaLinear::TuneOne(const TuneCase& tune, int32_t tokens, void* input, void* output) {
  const CudaWeight& first = *tune.weights.front();
  const ShapeKey shape{first.rows, first.cols, tune.output};
  DECANT_ASSIGN_OR_RETURN(const std::unique_ptr<Product> product, MakeProduct(shape, tokens));
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int count = 0;
  DECANT_RETURN_IF_ERROR(
      LtStatus(library_,
               library_.matmul_algo_get_heuristic(handle_, description_, product->weight,
                                                  product->input, product->output, product->output,
                                                  preference_, kCandidates, results.data(), &count),
               "choosing an algorithm"));
  DECANT_ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
  DECANT_ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
  double best = 0;
  for (int i = 0; i < count; ++i) {
    product->algorithm = results[i].algo;
    // Weights that were not read lately, as in a step.
    const size_t repeats = std::clamp<size_t>(tune.weights.size(), 3, 8);
    bool works = true;
    for (size_t r = 0; r <= repeats && works; ++r) {
      if (r == 1)
        DECANT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin.get(), stream_), "tuning"));
      const CudaWeight& weight = *tune.weights[r % tune.weights.size()];
      works = Enqueue(*product, weight.buffer.data(), input, output).ok();
    }
    DECANT_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end.get(), stream_), "tuning"));
    DECANT_RETURN_IF_ERROR(end.Wait());
    if (!works) continue;
    const double seconds = end.SecondsSince(begin);
    if (best == 0 || seconds < best) {
      best = seconds;
      chosen_[shape][tokens] = product->algorithm;
    }
  }
  return {};
}

Status CudaLinear::Tune(const std::vector<TuneCase>& cases, void* input, void* output) {
  for (const TuneCase& tune : cases) {
    for (const int32_t tokens : kTokenSteps) {
      DECANT_RETURN_IF_ERROR(TuneOne(tune, std::min(tokens, tune.max_tokens), input, output));
      if (tokens >= tune.max_tokens) break;
    }
  }
  products_.clear();
  return {};
}

Status CudaLinear::Run(const CudaWeight& weight, const void* input, int32_t tokens,
                       LinearOutput kind, void* output) {
  DECANT_ASSIGN_OR_RETURN(const Product* product,
                          FindProduct({weight.rows, weight.cols, kind}, tokens));
  return Enqueue(*product, weight.buffer.data(), input, output);
}

std::string CudaLinear::Describe() const {
  const size_t version = library_.get_version();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace decant
