#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace decant {

/// K and V of a row's first positions in one layer, rebuilt from its pages.
struct KvHistory {
  int32_t positions = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  std::vector<float> keys{};    ///< [kv_heads, head_dim, positions]
  std::vector<float> values{};  ///< [kv_heads, positions, head_dim]
};

/// How the pages of a cache are cut.
struct PageShape {
  int32_t page_size = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  size_t elements() const { return static_cast<size_t>(page_size) * kv_heads * head_dim; }
};

/// Reads positions [0, positions) through the block table `pages`.
KvHistory ReadHistory(const Ops& ops, const PageShape& shape, int32_t layer,
                      std::span<const int32_t> pages, int32_t positions);

/// What a computation in reduced precision rounds beyond its inputs.
struct AttentionRounding {
  DType probabilities = DType::kF32;  ///< exp(score - largest score), before V is multiplied.
  DType output = DType::kF32;
};

/// Attention of one query head [head_dim] over the first `visible` positions, the definition in
/// fp32: softmax(q . K / sqrt(head_dim)) . V into `out` [head_dim].
void AttendPlainly(std::span<const float> query, const KvHistory& history, int32_t kv_head,
                   int32_t visible, std::span<float> out);

/// The same, rounded where a kernel must round: the yardstick of a kernel's error.
void AttendRounded(std::span<const float> query, const KvHistory& history, int32_t kv_head,
                   int32_t visible, const AttentionRounding& rounding, std::span<float> out);

}  // namespace decant
