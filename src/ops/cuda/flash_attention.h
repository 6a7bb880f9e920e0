#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "ops/cuda/step_arrays.h"

namespace decant {

/// The decode kernel `flash`, and a yardstick for prompt chunks: FlashAttention 2.8.3's paged
/// split-KV kernel, called as its own PyTorch binding calls it (mha_fwd_kvcache in
/// csrc/flash_attn/flash_api.cpp of the flash-attn source archive; the archive is fetched by the
/// build, see cmake/FlashAttention.cmake).

/// Ok, or unimplemented: this program was built without the library.
Status FlashAttentionAvailable();

/// What a step's decode tokens, or some rows' prompt chunks of one length, look like to the
/// library.
struct FlashDecodeShape {
  CudaType type = CudaType::kF16;
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;         ///< 64 or 128
  int32_t page_size = 0;        ///< slots, a multiple of 256
  int32_t table_pages = 0;      ///< Entries of a row's block table that the library may look at.
  int32_t multiprocessors = 0;  ///< of the device
  /// Tokens of each row, its newest positions; each sees the positions up to its own.
  int32_t queries = 1;
};

/// Where one layer's operands lie in device memory. Strides count elements and are multiples of 8,
/// pointers are aligned to 16 bytes.
struct FlashDecodeArgs {
  const void* queries = nullptr;  ///< [rows, queries, heads, head_dim], tokens `query_stride` apart
  int64_t query_stride = 0;
  void* attended = nullptr;  ///< [rows, queries, heads, head_dim], tokens `attended_stride` apart
  int64_t attended_stride = 0;

  /// Element (page, slot, KV head, dim) at page * page_stride + slot * slot_stride +
  /// head * head_stride + dim.
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t page_stride = 0;
  int64_t slot_stride = 0;
  int64_t head_stride = 0;

  const int32_t* block_tables = nullptr;  ///< [rows, table_pages], rows `table_stride` apart
  int64_t table_stride = 0;
  const int32_t* context_lens = nullptr;  ///< [rows]; 0 gives a row of zeros

  void* workspace = nullptr;  ///< FlashDecode::workspace_bytes() of it
  float scale = 0;            ///< on the scores, such as 1 / sqrt(head_dim)
};

/// Attention of a step's decode tokens by FlashAttention, or of prompt chunks: planned once, run
/// once a layer. Sums are made in the same order each time; that order depends on the batch through
/// the number of splits.
class FlashDecode {
 public:
  /// Chooses the number of splits as the library does. Errors: invalid argument, naming what the
  /// kernel cannot take.
  static Expected<FlashDecode> Plan(const FlashDecodeShape& shape);

  /// Workspace that suffices for each plan with no more rows and table pages than `shape` has.
  static Expected<size_t> WorkspaceBound(const FlashDecodeShape& shape);

  /// Slices that a row's block table is cut into, 1 to 128.
  int32_t splits() const { return splits_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

  /// Does not wait and allocates nothing. Errors: FlashAttentionAvailable's; invalid argument: a
  /// missing or misaligned operand; internal: what CUDA said.
  Status Run(const FlashDecodeArgs& args, cudaStream_t stream) const;

 private:
  /// Byte offsets of the workspace's parts; log-sum-exps of whole rows come first.
  struct Workspace {
    size_t split_lse = 0;
    size_t split_attended = 0;
    size_t bytes = 0;
  };
  static Workspace LayOut(const FlashDecodeShape& shape, int32_t splits);

  FlashDecode(const FlashDecodeShape& shape, int32_t splits)
      : shape_(shape), splits_(splits), workspace_bytes_(LayOut(shape, splits).bytes) {}

  FlashDecodeShape shape_;
  int32_t splits_;
  size_t workspace_bytes_;
};

/// The library's choice of the number of splits (num_splits_heuristic in its flash_api.cpp), equal
/// to the last: the fewest splits that keep `slots` within 15% of as busy as any number up to
/// `most` could, or 1 if `blocks` alone nearly fill them.
///   blocks      thread blocks without splitting
///   slots       thread blocks that the device runs at once; the library counts 2 a multiprocessor
///   key_blocks  pieces that the keys come in; a number of splits that leaves the largest share as
///               large as one split fewer would is passed over
int32_t FlashSplitCount(int32_t blocks, int32_t slots, int32_t key_blocks, int32_t most);

}  // namespace decant
