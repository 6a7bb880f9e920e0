#include "ops/cuda/cuda_cache.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "ops/cuda/elementwise.h"
#include "tensor/host_copy.h"

namespace decant {
namespace {

constexpr int64_t kElementBytes = 2;

/// Calls visit(index in [slots, kv heads, dim], index in [kv heads, slots, dim]) for every element.
template <typename Visit>
void ForElements(const AttentionShape& shape, int32_t slots, Visit&& visit) {
  for (int32_t slot = 0; slot < slots; ++slot) {
    for (int32_t head = 0; head < shape.kv_heads; ++head) {
      for (int32_t dim = 0; dim < shape.head_dim; ++dim) {
        visit((int64_t{slot} * shape.kv_heads + head) * shape.head_dim + dim,
              (int64_t{head} * slots + slot) * shape.head_dim + dim);
      }
    }
  }
}

}  // namespace

Expected<CudaCache> CudaCache::Allocate(CudaType type, const AttentionShape& shape, int32_t layers,
                                        int32_t pages, int32_t page_size) {
  CudaCache cache;
  cache.type_ = type;
  cache.shape_ = shape;
  cache.layers_ = layers;
  cache.pages_ = pages;
  cache.page_size_ = page_size;
  const int64_t bytes = int64_t{layers} * pages * 2 * cache.half_page() * kElementBytes;
  Expected<DeviceBuffer> buffer =
      DeviceBuffer::Allocate(static_cast<size_t>(bytes), "the pool (lower --pool-gib)");
  if (!buffer.ok()) return buffer.status();
  cache.buffer_ = std::move(buffer).value();
  return cache;
}

std::byte* CudaCache::PageAt(int32_t layer, int32_t page) const {
  return buffer_.data() + (int64_t{layer} * pages_ + page) * 2 * half_page() * kElementBytes;
}

CachePages CudaCache::Layer(int32_t layer) const {
  std::byte* first = PageAt(layer, 0);
  return {.k = first,
          .v = first + half_page() * kElementBytes,
          .page_stride = 2 * half_page(),
          .head_stride = int64_t{page_size_} * shape_.head_dim,
          .page_size = page_size_};
}

Status CudaCache::WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                            std::span<const float> values, const CudaStream& stream) {
  DECANT_CHECK(static_cast<int64_t>(keys.size()) == half_page() && keys.size() == values.size(),
               "{} keys and {} values for a page", keys.size(), values.size());
  std::vector<float> ordered(2 * half_page());
  ForElements(shape_, page_size_, [&](int64_t given, int64_t stored) {
    ordered[stored] = keys[given];
    ordered[half_page() + stored] = values[given];
  });
  std::vector<std::byte> bytes(ordered.size() * kElementBytes);
  UploadToHost(ordered, {.data = bytes.data(),
                         .dtype = dtype(),
                         .rows = 1,
                         .cols = static_cast<int64_t>(ordered.size())});
  DECANT_RETURN_IF_ERROR(stream.Synchronize());
  return CudaStatus(
      cudaMemcpy(PageAt(layer, page), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
      "writing a page");
}

Status CudaCache::ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                           std::span<float> values, const CudaStream& stream) const {
  DECANT_CHECK(static_cast<int64_t>(keys.size()) == half_page() && keys.size() == values.size(),
               "{} keys and {} values for a page", keys.size(), values.size());
  std::vector<std::byte> bytes(2 * half_page() * kElementBytes);
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
  ForElements(shape_, page_size_, [&](int64_t wanted, int64_t at) {
    keys[wanted] = stored[at];
    values[wanted] = stored[half_page() + at];
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
