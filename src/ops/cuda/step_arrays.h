#pragma once

#include <cstdint>

#include "ops/step_batch.h"

namespace decant {

/// Element types that the CUDA kernels compute in; sums are fp32 everywhere.
enum class CudaType { kF16, kBf16 };

/// The row of a token that is padding.
inline constexpr int32_t kNoRow = -1;

struct PromptItem;
struct PromptMerge;

/// What a step draws as a part of its graph: the tokens that follow its first `samples` tokens.
struct GraphDraws {
  int32_t samples = 0;
  int32_t turn = 0;  ///< 0 or 1: where they go, since two steps may be in flight.
};

/// Numbers of a step that its graph's kernels read from device memory, as one graph serves many.
struct StepCounts {
  int32_t decode_rows = 0;
  GraphDraws draws{};
};

/// The sizes of a plan for the ranged prompt kernel; see prompt_plan.h.
struct alignas(16) PromptPlanCounts {
  int32_t items = 0;
  int32_t merges = 0;
  int32_t slots = 0;    ///< Of partial sums.
  int32_t mergers = 0;  ///< Items whose blocks take no others, all among the first of each block.
};

/// A step's batch in device memory, as kernels see it. Decode rows (query length 1) come first in
/// `rows`, and their tokens are the first tokens. Tokens may be padded: the last ones have id 0,
/// position 0 and no row. They are computed like others, but leave nothing in the cache, and nobody
/// looks at what comes of them.
struct StepArrays {
  int32_t tokens = 0;  ///< The padding counts.
  int32_t rows = 0;
  int32_t decode_rows = 0;
  int32_t prompt_tiles = 0;
  int32_t table_stride = 0;  ///< Entries of one row's block table.

  /// [tokens]; kLastToken: what the token's row sampled in the step before.
  const int32_t* token_ids = nullptr;
  const int32_t* positions = nullptr;     ///< [tokens]
  const int32_t* token_rows = nullptr;    ///< [tokens]; kNoRow: padding
  const int32_t* query_starts = nullptr;  ///< [rows]
  const int32_t* query_lens = nullptr;    ///< [rows]
  const int32_t* context_lens = nullptr;  ///< [rows]
  const int32_t* row_slots = nullptr;     ///< [rows], the row's place in the engine's batch
  const int32_t* block_tables = nullptr;  ///< [rows, table_stride]
  /// [prompt_tiles, 2]: row, first query row of it.
  const int32_t* prompt_tiles_at = nullptr;

  /// [1]; null: decode_rows is right, and nothing is drawn in a graph.
  const StepCounts* counts = nullptr;

  PromptPlanCounts prompt_plan;  ///< Of no items where none was asked for.
  /// The same in device memory [1], for graphs that serve many plans.
  const PromptPlanCounts* prompt_counts = nullptr;
  const PromptItem* prompt_items = nullptr;    ///< [prompt_plan.items]
  const PromptMerge* prompt_merges = nullptr;  ///< [prompt_plan.merges]
};

/// How the K (or V) of one page and KV head lies in memory.
enum class CacheLayout {
  kPlain,  ///< [slots, head_dim], for the decode kernels `rows` and `flash`
  kTiled,  ///< as tensor cores read it from shared memory, for `split`: cache_layout.h
};

/// One layer's K and V in device memory. The K of (page, kv head) is a block of
/// page_size * head_dim elements from page * page_stride + kv_head * head_stride on, in which
/// cache_layout.h says where an element is; V's block is at the same place of `v`. Tiled, V's block
/// follows K's, then the next head's.
struct CachePages {
  void* k = nullptr;
  void* v = nullptr;
  int64_t page_stride = 0;  ///< elements
  int64_t head_stride = 0;  ///< elements
  int32_t page_size = 0;    ///< slots
  CacheLayout layout = CacheLayout::kPlain;
};

/// What the attention kernels need of the model.
struct AttentionShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t group() const { return heads / kv_heads; }
};

}  // namespace decant
