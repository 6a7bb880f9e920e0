#include "ops/cuda/cuda_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/cuda/cache_layout.h"
#include "ops/cuda/device.h"
#include "ops/cuda/elementwise.h"
#include "tensor/host_copy.h"

namespace decant {
namespace {

constexpr int64_t kElementBytes = 2;
/// Of the pages that are converted at once.
constexpr int64_t kConversionBytes = int64_t{32} << 20;

/// Calls visit(index in [slots, kv heads, dim], where that is in K, likewise in V) for every
/// element of a page.
template <typename Visit>
void ForElements(const AttentionShape& shape, const CachePages& pages, Visit&& visit) {
  const int64_t v_at =
      (static_cast<const std::byte*>(pages.v) - static_cast<const std::byte*>(pages.k)) /
      kElementBytes;
  for (int32_t slot = 0; slot < pages.page_size; ++slot) {
    for (int32_t head = 0; head < shape.kv_heads; ++head) {
      for (int32_t dim = 0; dim < shape.head_dim; ++dim) {
        const int64_t at = head * pages.head_stride +
                           BlockElement(pages.layout, pages.page_size, shape.head_dim, slot, dim);
        visit((int64_t{slot} * shape.kv_heads + head) * shape.head_dim + dim, at, at + v_at);
      }
    }
  }
}

}  // namespace

Expected<CudaCache> CudaCache::Allocate(CudaType type, const AttentionShape& shape, int32_t layers,
                                        int32_t pages, int32_t page_size, CacheLayout layout) {
  CudaCache cache;
  cache.type_ = type;
  cache.shape_ = shape;
  cache.layers_ = layers;
  cache.pages_ = pages;
  cache.page_size_ = page_size;
  cache.layouts_.assign(layers, layout);
  const int64_t bytes = int64_t{layers} * pages * cache.page_bytes();
  Expected<DeviceBuffer> buffer =
      DeviceBuffer::Allocate(static_cast<size_t>(bytes), "the pool (lower --pool-gib)");
  if (!buffer.ok()) return buffer.status();
  cache.buffer_ = std::move(buffer).value();
  return cache;
}

int64_t CudaCache::page_bytes() const { return 2 * half_page() * kElementBytes; }

std::byte* CudaCache::PageAt(int32_t layer, int32_t page) const {
  return buffer_.data() + (int64_t{layer} * pages_ + page) * page_bytes();
}

CachePages CudaCache::PagesAt(std::byte* first, CacheLayout layout) const {
  const int64_t block = int64_t{page_size_} * shape_.head_dim;
  const bool plain = layout == CacheLayout::kPlain;
  return {.k = first,
          .v = first + (plain ? half_page() : block) * kElementBytes,
          .page_stride = 2 * half_page(),
          .head_stride = plain ? block : 2 * block,
          .page_size = page_size_,
          .layout = layout};
}

CachePages CudaCache::Layer(int32_t layer) const {
  return PagesAt(PageAt(layer, 0), layouts_[layer]);
}

Status CudaCache::PrepareConversion() {
  if (conversion_.size() > 0) return {};
  const int64_t bytes = std::clamp(kConversionBytes, page_bytes(), pages_ * page_bytes());
  DECANT_ASSIGN_OR_RETURN(conversion_, DeviceBuffer::Allocate(static_cast<size_t>(bytes),
                                                              "turning pages to another layout"));
  return {};
}

Status CudaCache::Convert(int32_t layer, CacheLayout layout, const CudaStream& stream) {
  if (layouts_[layer] == layout) return {};
  const auto at_once =
      static_cast<int32_t>(static_cast<int64_t>(conversion_.size()) / page_bytes());
  DECANT_CHECK(at_once > 0, "a conversion that was not prepared");
  for (int32_t first = 0; first < pages_; first += at_once) {
    const int32_t pages = std::min(at_once, pages_ - first);
    std::byte* target = PageAt(layer, first);
    DECANT_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(conversion_.data(), target, static_cast<size_t>(pages * page_bytes()),
                        cudaMemcpyDeviceToDevice, stream.get()),
        "copying pages"));
    LaunchRepack(shape_, pages, PagesAt(conversion_.data(), layouts_[layer]),
                 PagesAt(target, layout), stream.get());
    DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "turning pages to another layout"));
  }
  layouts_[layer] = layout;
  return {};
}

Status CudaCache::WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                            std::span<const float> values, const CudaStream& stream) {
  DECANT_CHECK(static_cast<int64_t>(keys.size()) == half_page() && keys.size() == values.size(),
               "{} keys and {} values for a page", keys.size(), values.size());
  std::vector<float> ordered(2 * half_page());
  ForElements(shape_, Layer(layer), [&](int64_t given, int64_t k_at, int64_t v_at) {
    ordered[k_at] = keys[given];
    ordered[v_at] = values[given];
  });
  std::vector<std::byte> bytes(ordered.size() * kElementBytes);
  UploadToHost(ordered, {.data = bytes.data(),
                         .dtype = dtype(),
                         .rows = 1,
                         .cols = static_cast<int64_t>(ordered.size())});
  DECANT_RETURN_IF_ERROR(stream.Synchronize());
  return CudaStatus(CopyToDevice(PageAt(layer, page), bytes.data(), bytes.size()),
                    "writing a page");
}

Status CudaCache::ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                           std::span<float> values, const CudaStream& stream) const {
  DECANT_CHECK(static_cast<int64_t>(keys.size()) == half_page() && keys.size() == values.size(),
               "{} keys and {} values for a page", keys.size(), values.size());
  std::vector<std::byte> bytes(page_bytes());
  DECANT_RETURN_IF_ERROR(stream.Synchronize());
  DECANT_RETURN_IF_ERROR(CudaStatus(
      cudaMemcpy(bytes.data(), PageAt(layer, page), bytes.size(), cudaMemcpyDeviceToHost),
      "reading a page"));
  std::vector<float> stored(2 * half_page());
  DownloadFromHost({.data = bytes.data(),
                    .dtype = dtype(),
                    .rows = 1,
                    .cols = static_cast<int64_t>(stored.size())},
                   stored);
  ForElements(shape_, Layer(layer), [&](int64_t wanted, int64_t k_at, int64_t v_at) {
    keys[wanted] = stored[k_at];
    values[wanted] = stored[v_at];
  });
  return {};
}

Status CudaCache::Fill(const RandomRows& values, const CudaStream& stream) {
  LaunchRandomFill(type_, values, bytes() / kElementBytes, buffer_.data(), stream.get());
  return CudaStatus(cudaGetLastError(), "filling the pool");
}

Status CudaCache::Poison(int32_t page, const CudaStream& stream) {
  for (int32_t layer = 0; layer < layers_; ++layer) {
    LaunchPoison(PageAt(layer, page), 2 * half_page(), stream.get());
  }
  return CudaStatus(cudaGetLastError(), "poisoning a page");
}

}  // namespace decant
