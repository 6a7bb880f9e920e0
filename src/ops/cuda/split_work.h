#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace decant {

/// Positions of one item: histories are cut at multiples of it, counted from position 0.
inline constexpr int32_t kSplitTokens = 256;
/// Positions that are in one stage of shared memory.
inline constexpr int32_t kSplitStageTokens = 64;
/// Rows of one step at most: the plan kernel has a thread a row.
inline constexpr int32_t kSplitMaxRows = 1024;
/// Warps of a block that compute, and items whose queries are in shared memory at once.
inline constexpr int32_t kSplitComputeWarps = 4;
inline constexpr int32_t kSplitQuerySlots = 2;
/// Launches that may be under way at once.
inline constexpr int32_t kSplitClaims = 64;

/// A unit of work: some positions of one row for one KV head. In device memory an item is
/// kSplitItemHeader words, then one word for every group of TiledSlots(page_size) slots of it: the
/// group's place in the layer, counted in groups.
enum SplitItemWord : int32_t {
  kItemRowHead,  ///< row * kv_heads + kv head
  kItemTokens,   ///< 1 to kSplitTokens
  kItemPartial,  ///< where its partial goes; -1: it is all of the row, and there is none
  kItemNewest,   ///< 1: it holds the row's newest position, which this step writes; else 0
  kSplitItemHeader,
};

constexpr int32_t SplitItemWords(int32_t slots_together) {
  return kSplitItemHeader + kSplitTokens / slots_together;
}

/// What the plan kernel makes once a step and the attention kernel of every layer reads.
struct SplitWork {
  int32_t* counts;   ///< [2]: items, merges
  int32_t* items;    ///< [items, words of an item], in the order in which they are begun
  int4* merges;      ///< [merges]: row * kv_heads + kv head, partials, the first of them, -
  float4* partials;  ///< [partials, fragments, kSplitFragmentVectors]; all bits set: not written
  uint32_t* claims;  ///< [kSplitClaims]; zero between launches
};

/// A fragment of a partial: 16 dims of 8 query heads as a warp holds them (4 numbers of each lane),
/// then maxima and sums of the heads (one vector for two heads).
inline constexpr int32_t kSplitFragmentVectors = 32 + 4;

inline constexpr int32_t kSplitVectorBytes = 16;

constexpr int32_t SplitFragments(int32_t head_dim, int32_t head_tiles) {
  return head_dim / 16 * head_tiles;
}

}  // namespace decant
