#include "ops/cpu/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace decant {

CpuKvCache::CpuKvCache(int32_t layers, int32_t kv_heads, int32_t head_dim, int32_t pages,
                       int32_t page_size)
    : layers_(layers),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      pages_(pages),
      page_size_(page_size),
      buffer_(static_cast<size_t>(layers) * pages * kv_heads * 2 * page_size * head_dim *
              sizeof(Bf16)) {}

void CpuKvCache::AppendK(int32_t layer, int32_t page, int32_t slot, int32_t kv_head,
                         const Bf16* k) {
  Bf16* base = buffer_.As<Bf16>().data() + HeadOffset(layer, page, kv_head);
  if (!blocked()) {
    std::copy_n(k, head_dim_, base + static_cast<int64_t>(slot) * head_dim_);
    return;
  }
  Bf16* block = base + static_cast<int64_t>(slot / kBlockTokens) * kBlockTokens * head_dim_;
  const int32_t token = slot % kBlockTokens;
  for (int32_t pair = 0; pair < head_dim_ / 2; ++pair) {
    std::memcpy(block + (pair * kBlockTokens + token) * 2, k + pair * 2, 2 * sizeof(Bf16));
  }
}

void CpuKvCache::AppendV(int32_t layer, int32_t page, int32_t slot, int32_t kv_head,
                         const Bf16* v) {
  Bf16* base = buffer_.As<Bf16>().data() + HeadOffset(layer, page, kv_head) +
               static_cast<int64_t>(page_size_) * head_dim_;
  if (!blocked()) {
    std::copy_n(v, head_dim_, base + static_cast<int64_t>(slot) * head_dim_);
    return;
  }
  Bf16* pair = base + static_cast<int64_t>(slot / 2) * 2 * head_dim_ + slot % 2;
  for (int32_t d = 0; d < head_dim_; ++d) pair[2 * d] = v[d];
}

void CpuKvCache::RangeBlocks(int32_t layer, int32_t kv_head, std::span<const int32_t> pages,
                             int32_t first, int32_t keys, Bf16* scratch, const Bf16** k_blocks,
                             const Bf16** v_blocks) const {
  const Bf16* cache = buffer_.As<Bf16>().data();
  const int64_t block_size = static_cast<int64_t>(kBlockTokens) * head_dim_;
  const int64_t v_offset = static_cast<int64_t>(page_size_) * head_dim_;
  const int32_t blocks = (keys + kBlockTokens - 1) / kBlockTokens;
  for (int32_t block = 0; block < blocks; ++block) {
    const int32_t start = first + block * kBlockTokens;
    const int32_t tokens = std::min(kBlockTokens, first + keys - start);
    Bf16* k_copy = scratch + block * 2 * block_size;
    Bf16* v_copy = k_copy + block_size;
    if (blocked()) {
      const Bf16* base = cache + HeadOffset(layer, pages[start / page_size_], kv_head) +
                         start % page_size_ / kBlockTokens * block_size;
      k_blocks[block] = base;
      v_blocks[block] = base + v_offset;
      if (tokens == kBlockTokens) continue;
      // Slots past the end may hold anything, and zero times NaN is NaN: the last block's V is
      // copied and cleared.
      std::copy_n(base + v_offset, block_size, v_copy);
      for (int32_t t = tokens; t < kBlockTokens; ++t) {
        Bf16* pair = v_copy + static_cast<int64_t>(t / 2) * 2 * head_dim_ + t % 2;
        for (int32_t d = 0; d < head_dim_; ++d) pair[2 * d] = Bf16{};
      }
      v_blocks[block] = v_copy;
      continue;
    }
    std::fill_n(k_copy, 2 * block_size, Bf16{});
    for (int32_t t = 0; t < tokens; ++t) {
      const int32_t position = start + t;
      const Bf16* k = cache + HeadOffset(layer, pages[position / page_size_], kv_head) +
                      static_cast<int64_t>(position % page_size_) * head_dim_;
      const Bf16* v = k + v_offset;
      for (int32_t d = 0; d < head_dim_; ++d) {
        k_copy[(d / 2 * kBlockTokens + t) * 2 + d % 2] = k[d];
        v_copy[(static_cast<int64_t>(t / 2) * head_dim_ + d) * 2 + t % 2] = v[d];
      }
    }
    k_blocks[block] = k_copy;
    v_blocks[block] = v_copy;
  }
}

template <typename Visit>
void CpuKvCache::ForPage(int32_t layer, int32_t page, Visit&& visit) const {
  DECANT_CHECK(layer >= 0 && layer < layers_ && page >= 0 && page < pages_,
               "page {} of {}, layer {} of {}", page, pages_, layer, layers_);
  const int64_t v_half = static_cast<int64_t>(page_size_) * head_dim_;
  int64_t index = 0;
  for (int32_t slot = 0; slot < page_size_; ++slot) {
    for (int32_t kv_head = 0; kv_head < kv_heads_; ++kv_head) {
      const int64_t head = HeadOffset(layer, page, kv_head);
      for (int32_t dim = 0; dim < head_dim_; ++dim) {
        visit(head + KOffset(slot, dim), head + v_half + VOffset(slot, dim), index++);
      }
    }
  }
}

void CpuKvCache::WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                           std::span<const float> values) {
  DECANT_CHECK(std::ssize(keys) == PageElements() && std::ssize(values) == PageElements(),
               "{} keys and {} values for a page of {}", keys.size(), values.size(),
               PageElements());
  const std::span<Bf16> cache = buffer_.As<Bf16>();
  ForPage(layer, page, [&](int64_t k, int64_t v, int64_t index) {
    cache[k] = ToBf16(keys[index]);
    cache[v] = ToBf16(values[index]);
  });
}

void CpuKvCache::ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                          std::span<float> values) const {
  DECANT_CHECK(std::ssize(keys) == PageElements() && std::ssize(values) == PageElements(),
               "{} keys and {} values for a page of {}", keys.size(), values.size(),
               PageElements());
  const std::span<const Bf16> cache = buffer_.As<Bf16>();
  ForPage(layer, page, [&](int64_t k, int64_t v, int64_t index) {
    keys[index] = ToFloat(cache[k]);
    values[index] = ToFloat(cache[v]);
  });
}

void CpuKvCache::Fill(const RandomRows& values, ThreadPool& pool) {
  std::vector<Bf16> content(PageSize());
  for (size_t i = 0; i < content.size(); ++i) content[i] = ToBf16(values.Value(i));
  Bf16* const cache = buffer_.As<Bf16>().data();
  pool.Run(int64_t{layers_} * pages_,
           [&](int64_t item, int) { std::ranges::copy(content, cache + item * PageSize()); });
}

void CpuKvCache::Poison(int32_t page) {
  DECANT_CHECK(page >= 0 && page < pages_, "page {} of {}", page, pages_);
  for (int32_t layer = 0; layer < layers_; ++layer) {
    std::fill_n(buffer_.As<Bf16>().data() + HeadOffset(layer, page, 0), PageSize(), kPoisonBf16);
  }
}

}  // namespace decant
