#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/thread_pool.h"
#include "ops/ops.h"
#include "tensor/host_buffer.h"
#include "tensor/tensor_view.h"

namespace decant {

class LinearKernel;
struct PackedSlice;

/// A weight matrix [rows, cols] cut into slices of output columns, each packed as oneDNN wants it.
/// The cut depends on the matrix only, never on threads or tokens.
class SlicedLinear : public LinearWeight {
 public:
  struct Slice {
    int64_t first_row = 0;  ///< In the order that PackLinear read the rows.
    int32_t rows = 0;
    const LinearKernel* kernel = nullptr;
    const PackedSlice* packed = nullptr;
    const std::byte* compact = nullptr;  ///< the quantised copy, or null
  };

  SlicedLinear();
  ~SlicedLinear() override;

  int64_t bytes() const override {
    return static_cast<int64_t>(int8_ ? compact_.size() : packed_.size());
  }
  /// Memory that a use by a few tokens reads: the quantised copy's, where there is one.
  int64_t compact_bytes() const {
    return static_cast<int64_t>(code_bits_ == 0 ? packed_.size() : compact_.size());
  }
  int64_t cols() const { return cols_; }
  int32_t max_slice_rows() const { return max_slice_rows_; }
  const std::vector<Slice>& slices() const { return slices_; }
  /// Whether its inputs are rounded to 8 bits; the quantised copy is then the only one.
  bool int8() const { return int8_; }

 private:
  friend class LinearEngine;
  int64_t cols_ = 0;
  int32_t max_slice_rows_ = 0;
  bool int8_ = false;
  std::vector<Slice> slices_;
  int code_bits_ = 0;       ///< of the quantised copy; 0: there is none
  int32_t chunk_cols_ = 0;  ///< columns that its kernel sums at a time, as oneDNN does
  HostBuffer packed_;
  HostBuffer compact_;
  std::vector<std::unique_ptr<PackedSlice>> packed_slices_;
};

/// Linear layers on oneDNN, Y = X W^T with fp32 sums, such that a row of Y has the same bits
/// however many other rows there are and wherever it stands among them.
///
/// oneDNN picks kernels by shape, so the shapes are fixed: weights are cut into slices, tokens into
/// blocks padded to one of a few sizes, and each block of each slice is one single-threaded matmul
/// that the thread pool hands out. Block sizes whose bits differ from the reference block's are
/// found when a shape is first packed, and are not used.
///
/// Steps of up to CpuKernels::compact_tokens tokens read the quantised copy, if there is one: a
/// third of the memory traffic, which is all that they wait for. Its bits are the same; Pack
/// compares every row and drops a copy that differs.
///
/// With LinearLayers::kInt8 a weight that has quantised blocks stays in them, and each use rounds
/// its inputs to 8 bits in blocks of 32, which is llama.cpp's arithmetic: more products a second
/// and less memory, for an error of up to 0.4% of a block's largest input.
class LinearEngine {
 public:
  /// dtype: of weights and activations.
  LinearEngine(DType dtype, LinearLayers layers, WeightCopies copies, const CpuKernels& kernels,
               ThreadPool& pool);
  LinearEngine(const LinearEngine&) = delete;
  LinearEngine& operator=(const LinearEngine&) = delete;
  ~LinearEngine();

  /// Rows that inputs must have allocated past their last token: blocks are padded.
  static constexpr int32_t kPadding = 512;

  /// Packs `source` in slices of `slice_rows` (the last may be shorter).
  std::unique_ptr<SlicedLinear> Pack(const RowSource& source, int32_t slice_rows);

  /// Multiplies input [tokens, cols] by every slice. epilogue(slice, first_token, count, out,
  /// worker) gets each result block, out [count, slice.rows] in fp32 and its to change, on the
  /// worker that computed it.
  template <typename Epilogue>
  void Run(const SlicedLinear& weight, TensorView input, int32_t tokens, Epilogue&& epilogue) {
    const int32_t block = BlockTokens(weight, tokens);
    const int32_t blocks = (tokens + block - 1) / block;
    const auto slices = static_cast<int64_t>(weight.slices().size());
    if (weight.int8()) RoundInputs(weight, input, tokens);
    // Blocks of one slice follow each other, so that a thread finds the slice in its cache.
    pool_.Run(slices * blocks, [&](int64_t item, int worker) {
      const SlicedLinear::Slice& slice = weight.slices()[item / blocks];
      const auto first = static_cast<int32_t>(item % blocks) * block;
      const int32_t count = tokens - first < block ? tokens - first : block;
      float* out = Compute(weight, slice, input, first, count, worker);
      epilogue(slice, first, count, out, worker);
    });
  }

  /// Operations a second that the whole team reaches on a large block of tokens: the rate behind
  /// the floors.
  double MeasureRate();

 private:
  struct Worker;

  int32_t BlockTokens(const SlicedLinear& weight, int32_t tokens) const;
  float* Compute(const SlicedLinear& weight, const SlicedLinear::Slice& slice, TensorView input,
                 int32_t first, int32_t tokens, int worker);
  const LinearKernel& KernelFor(int32_t rows, int64_t cols);
  void PackLibrary(const RowSource& source, SlicedLinear& weight);
  template <typename Packer>
  void PackCodes(const RowSource& source, SlicedLinear& weight, const Packer& pack);
  void PackCompactCopy(const RowSource& source, SlicedLinear& weight);
  bool CompactCopyAgrees(const SlicedLinear& weight);
  void ComputeCompact(const SlicedLinear& weight, const SlicedLinear::Slice& slice,
                      const Bf16* input, int32_t tokens, float* output) const;

  void RoundInputs(const SlicedLinear& weight, TensorView input, int32_t tokens);
  void ComputeInt8(const SlicedLinear& weight, const SlicedLinear::Slice& slice, int32_t first,
                   int32_t tokens, float* output) const;

  DType dtype_;
  LinearLayers layers_;
  WeightCopies copies_;
  const CpuKernels& kernels_;
  ThreadPool& pool_;
  std::map<std::pair<int32_t, int64_t>, std::unique_ptr<LinearKernel>> matmuls_;
  std::vector<std::unique_ptr<Worker>> workers_;

  // Inputs in 8 bits, of the use that runs: [tokens, cols], and [tokens, cols / 32] twice.
  std::vector<int8_t> input_codes_;
  std::vector<float> input_scales_;
  std::vector<float> input_sums_;
};

}  // namespace decant
