#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/step_arrays.h"
#include "ops/ops.h"
#include "tensor/tensor_view.h"

namespace decant {

/// The K and V of a pool's pages in every layer, in device memory:
/// [layers][pages][K, V][kv heads][block] where the layout is plain, and
/// [layers][pages][kv heads][K, V][block] where it is tiled (see CachePages).
class CudaCache {
 public:
  CudaCache() = default;
  /// Errors: resource exhausted, naming --pool-gib.
  static Expected<CudaCache> Allocate(CudaType type, const AttentionShape& shape, int32_t layers,
                                      int32_t pages, int32_t page_size, CacheLayout layout);

  int32_t page_size() const { return page_size_; }
  int32_t pages() const { return pages_; }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  CachePages Layer(int32_t layer) const;

  /// Gets ready for Convert. Errors: no room.
  Status PrepareConversion();
  /// Turns all pages of a layer to another layout, bit by bit; nothing where they have it. For
  /// gates that run several kernels on the same pages. Does not wait.
  Status Convert(int32_t layer, CacheLayout layout, const CudaStream& stream);

  /// Writes and reads all of a page in one layer, [page_size, kv_heads, head_dim]; both wait.
  Status WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                   std::span<const float> values, const CudaStream& stream);
  Status ReadPage(int32_t layer, int32_t page, std::span<float> keys, std::span<float> values,
                  const CudaStream& stream) const;

  /// Fills all pages with random numbers. Does not wait.
  Status Fill(const RandomRows& values, const CudaStream& stream);
  /// Fills a page with NaN in every layer. Does not wait.
  Status Poison(int32_t page, const CudaStream& stream);

 private:
  int64_t half_page() const {
    return int64_t{shape_.kv_heads} * page_size_ * shape_.head_dim;  // K or V, elements
  }
  int64_t page_bytes() const;  // K and V of a layer
  std::byte* PageAt(int32_t layer, int32_t page) const;
  CachePages PagesAt(std::byte* first, CacheLayout layout) const;
  DType dtype() const { return type_ == CudaType::kF16 ? DType::kF16 : DType::kBf16; }

  CudaType type_ = CudaType::kF16;
  AttentionShape shape_;
  int32_t layers_ = 0;
  int32_t pages_ = 0;
  int32_t page_size_ = 0;
  std::vector<CacheLayout> layouts_;  ///< [layers]
  DeviceBuffer buffer_;
  DeviceBuffer conversion_;  ///< Some pages on their way from one layout to the other.
};

}  // namespace decant
