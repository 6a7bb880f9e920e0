#include "ops/cuda/cache_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace decant {
namespace {

TEST(CacheLayoutTest, SlotsTogetherDivideThePageAndAStage) {
  for (const int32_t page_size : {16, 32, 48, 64, 80, 96, 128, 192, 208, 256, 512}) {
    const int32_t slots = TiledSlots(page_size);
    EXPECT_EQ(page_size % slots, 0) << page_size;
    EXPECT_EQ(64 % slots, 0) << page_size;
    EXPECT_GE(slots, 16) << page_size;
    EXPECT_TRUE(slots == 64 || page_size % (2 * slots) != 0) << page_size;
  }
}

TEST(CacheLayoutTest, EveryElementHasItsOwnPlace) {
  for (const CacheLayout layout : {CacheLayout::kPlain, CacheLayout::kTiled}) {
    for (const int32_t page_size : {16, 48, 64, 96, 256}) {
      for (const int32_t head_dim : {64, 128}) {
        std::vector<bool> taken(static_cast<size_t>(page_size) * head_dim);
        for (int32_t slot = 0; slot < page_size; ++slot) {
          for (int32_t dim = 0; dim < head_dim; ++dim) {
            const int32_t at = BlockElement(layout, page_size, head_dim, slot, dim);
            ASSERT_GE(at, 0);
            ASSERT_LT(at, page_size * head_dim);
            EXPECT_FALSE(taken[at]) << slot << " " << dim;
            taken[at] = true;
            // Eight dims are one piece of 16 bytes in both.
            EXPECT_EQ(at, BlockElement(layout, page_size, head_dim, slot, dim / 8 * 8) + dim % 8);
          }
        }
      }
    }
  }
}

TEST(CacheLayoutTest, SlotAndDimAddUpToTheElement) {
  for (const CacheLayout layout : {CacheLayout::kPlain, CacheLayout::kTiled}) {
    for (const int32_t page_size : {16, 48, 64, 96, 256}) {
      for (const int32_t head_dim : {64, 128}) {
        for (int32_t slot = 0; slot < page_size; ++slot) {
          for (int32_t dim = 0; dim < head_dim; ++dim) {
            ASSERT_EQ(SlotElement(layout, page_size, head_dim, slot) +
                          DimElement(layout, page_size, slot % 8, dim),
                      BlockElement(layout, page_size, head_dim, slot, dim))
                << page_size << " " << slot << " " << dim;
          }
        }
      }
    }
  }
}

TEST(CacheLayoutTest, TiledIsTheSwizzleOf128Bytes) {
  constexpr int32_t kPage = 64;
  constexpr int32_t kDim = 128;
  EXPECT_EQ(TiledElement(kPage, kDim, 0, 0), 0);
  EXPECT_EQ(TiledElement(kPage, kDim, 1, 0), 64 + 8);
  EXPECT_EQ(TiledElement(kPage, kDim, 9, 17), 9 * 64 + (2 ^ 1) * 8 + 1);
  EXPECT_EQ(TiledElement(kPage, kDim, 63, 64), 64 * 64 + 63 * 64 + 7 * 8);
  EXPECT_EQ(TiledElement(48, kDim, 17, 64), 16 * 128 + 16 * 64 + 64 + 8);  // pages of 48: 16 slots
}

}  // namespace
}  // namespace decant
