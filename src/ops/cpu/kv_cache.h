#pragma once

#include <cstdint>
#include <span>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/thread_pool.h"
#include "ops/ops.h"
#include "tensor/bf16.h"
#include "tensor/host_buffer.h"

namespace decant {

/// The K and V of a pool's pages in every layer, bf16. Where the page size is a multiple of 16, a
/// page holds its positions in the blocks that AttendRange reads (see AttendRangeArgs), so that
/// attention reads pages in place; at any other page size slots lie one after another and Block
/// assembles copies.
class CpuKvCache {
 public:
  CpuKvCache() = default;
  CpuKvCache(int32_t layers, int32_t kv_heads, int32_t head_dim, int32_t pages, int32_t page_size);

  int32_t page_size() const { return page_size_; }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

  /// Writes one position's K (V) of one head, [head_dim].
  void AppendK(int32_t layer, int32_t page, int32_t slot, int32_t kv_head, const Bf16* k);
  void AppendV(int32_t layer, int32_t page, int32_t slot, int32_t kv_head, const Bf16* v);

  /// Bf16s of scratch that RangeBlocks needs.
  int64_t RangeScratch() const { return int64_t{2} * kMaxRangeTokens * head_dim_; }

  /// The blocks of positions [first, first + keys) of the row whose block table is `pages`; first
  /// is a multiple of 16 and keys at most kMaxRangeTokens. V slots past `keys` in the last block
  /// read as zero. Blocks point into the cache or into `scratch` and hold until scratch is used
  /// again.
  void RangeBlocks(int32_t layer, int32_t kv_head, std::span<const int32_t> pages, int32_t first,
                   int32_t keys, Bf16* scratch, const Bf16** k_blocks, const Bf16** v_blocks) const;

  /// Writes and reads all of a page in one layer, [page_size, kv_heads, head_dim].
  void WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                 std::span<const float> values);
  void ReadPage(int32_t layer, int32_t page, std::span<float> keys, std::span<float> values) const;

  /// Fills every page with numbers of `values`, the same ones.
  void Fill(const RandomRows& values, ThreadPool& pool);

  /// Fills a page with NaN in every layer.
  void Poison(int32_t page);

 private:
  bool blocked() const { return page_size_ % kBlockTokens == 0; }
  /// Where element `dim` of a slot's K (V) lies in the K (V) half of a head's part of a page.
  int64_t KOffset(int32_t slot, int32_t dim) const {
    if (!blocked()) return static_cast<int64_t>(slot) * head_dim_ + dim;
    const int64_t block = static_cast<int64_t>(slot / kBlockTokens) * kBlockTokens * head_dim_;
    return block + (static_cast<int64_t>(dim / 2) * kBlockTokens + slot % kBlockTokens) * 2 +
           dim % 2;
  }
  int64_t VOffset(int32_t slot, int32_t dim) const {
    if (!blocked()) return static_cast<int64_t>(slot) * head_dim_ + dim;
    return (static_cast<int64_t>(slot / 2) * head_dim_ + dim) * 2 + slot % 2;
  }
  /// Bf16s of a page in one layer, K and V.
  int64_t PageSize() const { return 2 * PageElements(); }
  int64_t PageElements() const { return static_cast<int64_t>(page_size_) * kv_heads_ * head_dim_; }
  /// Calls visit(place in buffer_ of the K, of the V, index into [page_size, kv_heads, head_dim])
  /// for every element of a page.
  template <typename Visit>
  void ForPage(int32_t layer, int32_t page, Visit&& visit) const;
  int64_t HeadOffset(int32_t layer, int32_t page, int32_t kv_head) const {
    return ((static_cast<int64_t>(layer) * pages_ + page) * kv_heads_ + kv_head) * 2 * page_size_ *
           head_dim_;
  }

  int32_t layers_ = 0;
  int32_t kv_heads_ = 0;
  int32_t head_dim_ = 0;
  int32_t pages_ = 0;
  int32_t page_size_ = 0;
  HostBuffer buffer_;  // [layers][pages][kv_heads][K, V][page_size * head_dim]
};

}  // namespace decant
