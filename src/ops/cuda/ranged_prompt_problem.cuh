#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/cuda/cache_layout.h"
#include "ops/cuda/device.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/ranged_prompt.h"

/// Prompt chunks on a device, for the test and the benchmark of the ranged prompt kernel.
namespace decant::ranged_prompt_test {

inline constexpr int32_t kPoisonPage = 2147480000;

inline void Require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Device memory of `count` elements.
template <typename T>
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t count) : size_(count) {
    if (count > 0) Require(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
  }
  explicit Memory(const std::vector<T>& values) : Memory(values.size()) { Set(values); }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  void Set(std::span<const T> values) {
    Require(CopyToDevice(data_, values.data(), values.size_bytes()), "cudaMemcpy");
  }
  void Fill(int byte) { Require(FillDevice(data_, byte, size_ * sizeof(T)), "cudaMemset"); }
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    Require(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Uniform in [-range, range), by index: the same values whatever they are written for.
template <typename T>
__global__ void FillUniform(T* values, size_t count, float range, uint64_t seed) {
  const CounterRng rng(seed);
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    values[i] = Element<T>::From((static_cast<float>(rng.Uniform(i)) * 2 - 1) * range);
  }
}

/// Copies tokens [first, first + count) of `plain` [tokens, kv_heads, 2, head_dim] to their pages.
template <typename T>
__global__ void AppendTokens(const T* plain, const int32_t* table, int32_t first, int32_t count,
                             int32_t kv_heads, int32_t head_dim, CachePages pages) {
  for (int32_t token = first + blockIdx.x; token < first + count; token += gridDim.x) {
    const int64_t page = int64_t{table[token / pages.page_size]} * pages.page_stride;
    for (int32_t i = threadIdx.x; i < kv_heads * 2 * head_dim; i += blockDim.x) {
      const int32_t dim = i % head_dim;
      const int32_t kv_head = i / head_dim / 2;
      T* block = static_cast<T*>(i / head_dim % 2 == 0 ? pages.k : pages.v);
      block[page + kv_head * pages.head_stride +
            TiledElement(pages.page_size, head_dim, token % pages.page_size, dim)] =
          plain[int64_t{token} * kv_heads * 2 * head_dim + i];
    }
  }
}

/// A pool of tiled pages, NaN all over.
class Pool {
 public:
  Pool(const AttentionShape& shape, int32_t page_size, int32_t pages)
      : elements_(static_cast<size_t>(pages) * shape.kv_heads * 2 * page_size * shape.head_dim),
        view_{.k = elements_.data(),
              .v = elements_.data() + int64_t{page_size} * shape.head_dim,
              .page_stride = int64_t{2} * shape.kv_heads * page_size * shape.head_dim,
              .head_stride = int64_t{2} * page_size * shape.head_dim,
              .page_size = page_size,
              .layout = CacheLayout::kTiled} {
    Poison();
  }
  void Poison() { elements_.Fill(0xff); }
  const CachePages& view() const { return view_; }
  size_t bytes() const { return elements_.size() * 2; }

 private:
  Memory<uint16_t> elements_;
  CachePages view_;
};

/// Block tables of requests of these lengths, pages in shuffled order; unused entries and some
/// pages belong to nobody.
struct Tables {
  Tables(std::span<const int32_t> lengths, int32_t page_size, uint64_t seed) {
    constexpr int32_t kSpare = 3;
    pages = kSpare;
    for (const int32_t length : lengths) {
      const int32_t used = (length + page_size - 1) / page_size;
      pages += used;
      stride = std::max(stride, used + kSpare);
    }
    std::vector<int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    const CounterRng rng(seed);
    for (int32_t i = pages - 1; i > 0; --i) std::swap(order[i], order[rng.Below(i, i + 1)]);
    entries.assign(lengths.size() * stride, kPoisonPage);
    int32_t next = 0;
    for (size_t row = 0; row < lengths.size(); ++row) {
      for (int32_t i = 0; i * page_size < lengths[row]; ++i) {
        entries[row * stride + i] = order[next++];
      }
    }
    device = Memory<int32_t>(entries);
  }
  int32_t stride = 0;
  int32_t pages = 0;
  std::vector<int32_t> entries;
  Memory<int32_t> device;
};

/// A prompt chunk of a request.
struct Chunk {
  int32_t tokens = 0;
  int32_t history = 0;
};

/// Rows of a step that holds `chunks`, one after another.
inline std::vector<BatchRow> MakeRows(std::span<const Chunk> chunks) {
  std::vector<BatchRow> rows;
  int32_t start = 0;
  for (const Chunk& chunk : chunks) {
    rows.push_back({.slot = static_cast<int32_t>(rows.size()),
                    .query_start = start,
                    .query_len = chunk.tokens,
                    .context_len = chunk.history + chunk.tokens,
                    .pages = {}});
    start += chunk.tokens;
  }
  return rows;
}

inline int32_t TokensOf(std::span<const Chunk> chunks) {
  int32_t tokens = 0;
  for (const Chunk& chunk : chunks) tokens += chunk.tokens;
  return tokens;
}

/// The kernel with its plan in device memory.
class Runner {
 public:
  Runner(CudaType type, const PromptPlanLimits& limits)
      : prompt_(Make(type, limits)),
        items_(prompt_.planner().most().items),
        merges_(prompt_.planner().most().merges),
        counts_(1) {}

  /// `table` in device memory, `stride` entries a row.
  void Plan(std::span<const BatchRow> rows, const int32_t* table, int32_t stride,
            const PromptPlanChoices& choices = {}) {
    PromptPlanner& planner = prompt_.planner();
    step_ = {};
    step_.prompt_plan = planner.Plan(rows, stride, choices);
    step_.prompt_items = items_.data();
    step_.prompt_merges = merges_.data();
    step_.prompt_counts = counts_.data();
    step_.block_tables = table;
    items_.Set(planner.items());
    merges_.Set(planner.merges());
    counts_.Set(std::span(&step_.prompt_plan, 1));
    RequireOk(prompt_.Reset(step_.prompt_plan.slots, nullptr));
  }

  void Launch(const CachePages& pages, const void* queries, void* attended, cudaStream_t stream) {
    RequireOk(prompt_.Launch(step_, pages, queries, attended, stream));
  }
  const PromptPlanCounts& counts() const { return step_.prompt_plan; }
  RangedPrompt& prompt() { return prompt_; }

 private:
  static void RequireOk(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::exit(1);
  }
  static RangedPrompt Make(CudaType type, const PromptPlanLimits& limits) {
    Expected<RangedPrompt> prompt = RangedPrompt::Create(type, limits, 0);
    RequireOk(prompt.status());
    return std::move(prompt).value();
  }

  RangedPrompt prompt_;
  Memory<PromptItem> items_;
  Memory<PromptMerge> merges_;
  Memory<PromptPlanCounts> counts_;
  StepArrays step_;
};

}  // namespace decant::ranged_prompt_test
