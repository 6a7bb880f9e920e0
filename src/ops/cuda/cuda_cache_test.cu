// The CUDA cache in either layout: what is written comes back, a conversion changes no bit, and
// what a step appends lies where both layouts say.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/cuda/cuda_cache.h"
#include "ops/cuda/device.h"
#include "ops/cuda/elementwise.h"

namespace decant {
namespace {

constexpr int32_t kLayers = 2;
constexpr int32_t kPages = 5;
constexpr CacheLayout kLayouts[] = {CacheLayout::kPlain, CacheLayout::kTiled};

using Floats = std::vector<float>;

/// Exact in fp16 and bf16.
Floats Random(size_t count, uint64_t key) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(CounterRng(key).Below(i, 255)) / 64.0F - 2.0F;
  }
  return values;
}

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <typename T>
T* Upload(const std::vector<T>& values) {
  T* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, values.size() * sizeof(T)), cudaSuccess);
  EXPECT_EQ(CopyToDevice(memory, values.data(), values.size() * sizeof(T)), cudaSuccess);
  return memory;
}

class CudaCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device here";
    Expected<CudaStream> stream = CudaStream::Create();
    ASSERT_TRUE(stream.ok());
    stream_ = std::move(stream).value();
  }

  static CudaCache Allocate(const AttentionShape& shape, int32_t page_size, CacheLayout layout) {
    Expected<CudaCache> cache =
        CudaCache::Allocate(CudaType::kF16, shape, kLayers, kPages, page_size, layout);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    return std::move(cache).value();
  }

  /// Keys, then values of a page.
  std::pair<Floats, Floats> Read(const CudaCache& cache, int32_t layer, int32_t page, size_t size) {
    std::pair<Floats, Floats> read{Floats(size), Floats(size)};
    EXPECT_TRUE(cache.ReadPage(layer, page, read.first, read.second, stream_).ok());
    return read;
  }

  CudaStream stream_;
};

TEST_F(CudaCacheTest, PagesComeBackInEitherLayoutAndAfterAConversion) {
  for (const int32_t head_dim : {64, 128}) {
    const AttentionShape shape{.heads = 6, .kv_heads = 3, .head_dim = head_dim};
    for (const int32_t page_size : {16, 48, 64, 96, 256}) {
      const auto size = static_cast<size_t>(page_size) * shape.kv_heads * head_dim;
      for (const CacheLayout layout : kLayouts) {
        CudaCache cache = Allocate(shape, page_size, layout);
        EXPECT_EQ(cache.Layer(0).layout, layout);
        for (int32_t layer = 0; layer < kLayers; ++layer) {
          for (int32_t page = 0; page < kPages; ++page) {
            const uint64_t key = 2 * (layer * kPages + page);
            ASSERT_TRUE(
                cache.WritePage(layer, page, Random(size, key), Random(size, key + 1), stream_)
                    .ok());
          }
        }
        ASSERT_TRUE(cache.Poison(3, stream_).ok());
        ASSERT_TRUE(cache.PrepareConversion().ok());
        // As written, converted, and converted back.
        for (const int turn : {0, 1, 0}) {
          const CacheLayout wanted =
              kLayouts[turn == 0 ? layout == CacheLayout::kTiled : layout == CacheLayout::kPlain];
          ASSERT_TRUE(cache.Convert(1, wanted, stream_).ok());
          EXPECT_EQ(cache.Layer(1).layout, wanted);
          EXPECT_EQ(cache.Layer(0).layout, layout);
          for (int32_t layer = 0; layer < kLayers; ++layer) {
            for (int32_t page = 0; page < kPages; ++page) {
              const auto [keys, values] = Read(cache, layer, page, size);
              if (page == 3) {
                for (const float value : keys) ASSERT_TRUE(std::isnan(value));
                for (const float value : values) ASSERT_TRUE(std::isnan(value));
                continue;
              }
              const uint64_t key = 2 * (layer * kPages + page);
              EXPECT_TRUE(SameBits(keys, Random(size, key))) << page_size << " " << page;
              EXPECT_TRUE(SameBits(values, Random(size, key + 1))) << page_size << " " << page;
            }
          }
        }
      }
    }
  }
}

/// Two tokens of one row, in two pages.
TEST_F(CudaCacheTest, AStepAppendsTheSameInEitherLayout) {
  for (const int32_t head_dim : {64, 128}) {
    const AttentionShape shape{.heads = 6, .kv_heads = 3, .head_dim = head_dim};
    constexpr int32_t kPageSize = 48;
    const auto size = static_cast<size_t>(kPageSize) * shape.kv_heads * head_dim;
    const int32_t columns = (shape.heads + 2 * shape.kv_heads) * head_dim;
    Floats rotations;  // of no angle
    for (int32_t i = 0; i < 2 * kPageSize * head_dim / 2; ++i)
      rotations.insert(rotations.end(), {1, 0});
    float* qkv = Upload(Random(2 * columns, 7));
    float* no_turn = Upload(rotations);
    int32_t* positions = Upload(std::vector<int32_t>{kPageSize - 1, kPageSize});
    int32_t* token_rows = Upload(std::vector<int32_t>{0, 0});
    int32_t* tables = Upload(std::vector<int32_t>{4, 1});
    float* queries = Upload(Floats(2 * shape.heads * head_dim));
    StepArrays step;
    step.tokens = 2;
    step.rows = 1;
    step.table_stride = 2;
    step.positions = positions;
    step.token_rows = token_rows;
    step.block_tables = tables;
    std::pair<Floats, Floats> pages[2][2];
    for (int i = 0; i < 2; ++i) {
      CudaCache cache = Allocate(shape, kPageSize, kLayouts[i]);
      const Floats nothing(size, 0);
      for (int32_t page = 0; page < kPages; ++page) {
        ASSERT_TRUE(cache.WritePage(1, page, nothing, nothing, stream_).ok());
      }
      LaunchFinishQkv(CudaType::kF16,
                      {.qkv = qkv,
                       .rotations = no_turn,
                       .shape = shape,
                       .queries = queries,
                       .cache = cache.Layer(1)},
                      step, stream_.get());
      for (int32_t p = 0; p < 2; ++p) pages[i][p] = Read(cache, 1, p == 0 ? 4 : 1, size);
    }
    const Floats given = Random(2 * columns, 7);
    for (int32_t p = 0; p < 2; ++p) {
      EXPECT_TRUE(SameBits(pages[0][p].first, pages[1][p].first));
      EXPECT_TRUE(SameBits(pages[0][p].second, pages[1][p].second));
      const size_t slot = p == 0 ? kPageSize - 1 : 0;
      const size_t width = static_cast<size_t>(shape.kv_heads) * head_dim;
      const Floats keys(pages[0][p].first.begin() + slot * width,
                        pages[0][p].first.begin() + (slot + 1) * width);
      const auto first_key = given.begin() + p * columns + shape.heads * head_dim;
      EXPECT_TRUE(SameBits(keys, Floats(first_key, first_key + width)));
    }
    for (void* memory : {static_cast<void*>(qkv), static_cast<void*>(no_turn),
                         static_cast<void*>(positions), static_cast<void*>(token_rows),
                         static_cast<void*>(tables), static_cast<void*>(queries)}) {
      EXPECT_EQ(cudaFree(memory), cudaSuccess);
    }
  }
}

}  // namespace
}  // namespace decant
