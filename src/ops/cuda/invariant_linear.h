#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/invariant_linear_plan.h"
#include "ops/cuda/linear_finish.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// A weight [rows, cols] in device memory, in packed blocks (kLinearBlock).
struct PackedWeight {
  DeviceBuffer buffer;
  int32_t rows = 0;
  int32_t cols = 0;
  int32_t pair_distance = 0;  ///< Order of the rows: PackedRowSource.
};

/// Which kernels compute.
enum class LinearKernels {
  kBest,      ///< those of compute capability 9.0 where they run
  kPortable,  ///< those of 8.0
};

/// Linear layers whose results do not depend on what else is computed: the bits of an output are a
/// function of its own input row and of the weight, whatever the number of tokens and the place
/// among them. Sums in fp32. The two kinds of
/// kernels differ in bits, so results are comparable between devices of one kind.
///
/// Products use the workspace, so they must follow each other in one stream.
class InvariantLinear {
 public:
  /// `device` is the calling thread's. Errors: no room; what CUDA says.
  /// The stream must outlive the object.
  static Expected<std::unique_ptr<InvariantLinear>> Create(
      CudaType type, int device, const CudaStream& stream,
      LinearKernels kernels = LinearKernels::kBest);

  /// Packs `rows` x `cols` elements, row by row, in device memory, once earlier work of the stream
  /// has written them. cols: a multiple of 8; pair_distance: PackedRowSource's, and rows a multiple
  /// of twice as many. Does not wait.
  Expected<PackedWeight> Pack(const void* elements, int64_t rows, int64_t cols,
                              int32_t pair_distance = 0) const;

  /// Weights of one shape, such as all layers' down projections.
  struct TuneCase {
    std::vector<const PackedWeight*> weights;
    /// Other than kQkv, for which kFloat stands in: it writes as much, and nothing by a table.
    LinearFinish finish = LinearFinish::kFloat;
    int32_t max_tokens = 0;
  };
  /// Memory to measure with; what it holds is lost. Its sizes in bytes are at least those of
  /// TuneRoom::For.
  struct TuneRoom {
    void* input = nullptr;
    void* output = nullptr;
    ResidualForm form;

    struct Sizes {
      size_t input = 0;
      size_t output = 0;
      size_t rounded = 0;
      size_t squares = 0;
    };
    static Sizes For(const std::vector<TuneCase>& cases);
  };
  /// Measures which plans are fastest, for every shape among the cases and up to max_tokens tokens;
  /// results do not depend on it. Waits for the device.
  Status Tune(const std::vector<TuneCase>& cases, const TuneRoom& room);

  /// Sums input [tokens, weight.cols] * weight^T, and makes of them what `result` says. Does not
  /// wait.
  Status Run(const PackedWeight& weight, const LinearInput& input, int32_t tokens,
             const ProductResult& result);

  /// The plan that Run takes.
  LinearPlan Plan(const PackedWeight& weight, LinearFinish finish, int32_t tokens);

  /// The same by a given plan and the kernels of 9.0, for tests and measurements. Errors: failed
  /// precondition where blocks would wait for others that may not be resident.
  Status RunPlan(const LinearPlan& plan, const PackedWeight& weight, const LinearInput& input,
                 int32_t tokens, const ProductResult& result) const;

  /// kPortable also where kBest was asked for and cannot run.
  LinearKernels kernels() const { return kernels_; }
  const LinearDevice& device() const { return device_; }
  int64_t workspace_bytes() const {
    return static_cast<int64_t>(handed_over_.size() + handed_flags_.size());
  }
  std::string Describe() const;

 private:
  /// Of a LinearProblem: rows, cols, token_rows_unit.
  using Shape = std::tuple<int32_t, int32_t, int32_t>;

  InvariantLinear(CudaType type, const CudaStream& stream) : type_(type), stream_(stream) {}
  /// For the kernels of 9.0.
  Status Prepare(int device);
  Status TuneOne(const TuneCase& tune, int32_t tokens, const TuneRoom& room);
  Expected<double> Measure(const TuneCase& tune, const LinearPlan& plan, int32_t tokens,
                           const TuneRoom& room);

  const CudaType type_;
  const CudaStream& stream_;
  LinearKernels kernels_ = LinearKernels::kPortable;
  LinearDevice device_;
  DeviceBuffer handed_over_;
  DeviceBuffer handed_flags_;
  /// By shape, and the most tokens that a choice is for: one of a few steps.
  std::map<Shape, std::map<int32_t, LinearChoice>> chosen_;
};

}  // namespace decant
