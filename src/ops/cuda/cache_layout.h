#pragma once

#include <cstdint>

#include "ops/cuda/step_arrays.h"

namespace decant {

/// Dims of a tiled block that lie side by side: 128 bytes of 2-byte elements.
inline constexpr int32_t kTiledDims = 64;

/// Slots that lie together in a tiled block: the greatest common divisor of the page size, a
/// multiple of 16, and 64.
constexpr int32_t TiledSlots(int32_t page_size) {
  const int32_t power_of_two = page_size & -page_size;
  return power_of_two < 64 ? power_of_two : 64;
}

/// Where (slot, dim) of a tiled block is: [page_size / n][head_dim / 64][n slots][64 dims] with
/// n = TiledSlots(page_size). Of a slot's 128 bytes, 16-byte piece i lies at i ^ (slot % 8), so
/// that eight slots' same pieces lie in eight different groups of banks once a block is copied to
/// shared memory as it is. This is the hardware's 128-byte swizzle where n slots start on 1,024
/// bytes.
constexpr int32_t TiledElement(int32_t page_size, int32_t head_dim, int32_t slot, int32_t dim) {
  const int32_t together = TiledSlots(page_size);
  const int32_t piece = dim % kTiledDims / 8 ^ slot % 8;
  return slot / together * together * head_dim + dim / kTiledDims * together * kTiledDims +
         slot % together * kTiledDims + piece * 8 + dim % 8;
}

/// Where (slot, dim) of a block is in either layout, in elements. Eight dims from a multiple of 8
/// on are neighbours.
constexpr int32_t BlockElement(CacheLayout layout, int32_t page_size, int32_t head_dim,
                               int32_t slot, int32_t dim) {
  return layout == CacheLayout::kPlain ? slot * head_dim + dim
                                       : TiledElement(page_size, head_dim, slot, dim);
}

/// BlockElement in two parts, for who writes many dims of a slot: their sum. The second depends on
/// the slot's number mod 8 only.
constexpr int32_t SlotElement(CacheLayout layout, int32_t page_size, int32_t head_dim,
                              int32_t slot) {
  if (layout == CacheLayout::kPlain) return slot * head_dim;
  const int32_t together = TiledSlots(page_size);
  return slot / together * together * head_dim + slot % together * kTiledDims;
}
constexpr int32_t DimElement(CacheLayout layout, int32_t page_size, int32_t slot, int32_t dim) {
  if (layout == CacheLayout::kPlain) return dim;
  return dim / kTiledDims * TiledSlots(page_size) * kTiledDims +
         (dim % kTiledDims / 8 ^ slot % 8) * 8 + dim % 8;
}

}  // namespace decant
