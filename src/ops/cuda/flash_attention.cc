#include "ops/cuda/flash_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace decant {
namespace {

constexpr int32_t kMaxSplits = 128;
constexpr int32_t kQueryBlock = 64;  // queries of a head that a thread block takes
constexpr size_t kAlignment = 256;

constexpr int32_t CeilDivide(int32_t value, int32_t divisor) {
  return (value + divisor - 1) / divisor;
}

constexpr size_t AlignUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Thread blocks without splitting. A row's only query is handed to the library as several of one
/// head: the query heads that share a KV head.
int32_t BlocksOf(const FlashDecodeShape& shape) {
  return shape.queries > 1
             ? shape.rows * shape.heads * CeilDivide(shape.queries, kQueryBlock)
             : shape.rows * shape.kv_heads * CeilDivide(shape.heads / shape.kv_heads, kQueryBlock);
}

/// Which part of the multiprocessors' time is used when `blocks` run `slots` at a time.
float Occupancy(int32_t blocks, int32_t slots) {
  const float waves = static_cast<float>(blocks) / static_cast<float>(slots);
  return waves / std::ceil(waves);
}

int32_t KeyBlocks(const FlashDecodeShape& shape) {
  return CeilDivide(shape.table_pages * shape.page_size, shape.head_dim <= 64 ? 256 : 128);
}

int32_t MostSplits(const FlashDecodeShape& shape) {
  return std::min({kMaxSplits, 2 * shape.multiprocessors, KeyBlocks(shape)});
}

int32_t SplitsOf(const FlashDecodeShape& shape) {
  return FlashSplitCount(BlocksOf(shape), 2 * shape.multiprocessors, KeyBlocks(shape), kMaxSplits);
}

Status CheckShape(const FlashDecodeShape& shape) {
  constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
  constexpr int64_t kGridMax = 65535;
  if (shape.head_dim != 64 && shape.head_dim != 128) {
    return InvalidArgument("flash: head_dim is {}; allowed: 64, 128", shape.head_dim);
  }
  if (shape.page_size < 256 || shape.page_size % 256 != 0) {
    return InvalidArgument("flash: page size is {}; allowed: multiples of 256", shape.page_size);
  }
  if (shape.kv_heads < 1 || shape.heads < 1 || shape.heads % shape.kv_heads != 0) {
    return InvalidArgument("flash: {} heads do not divide into {} KV heads", shape.heads,
                           shape.kv_heads);
  }
  if (shape.queries < 1) return InvalidArgument("flash: {} queries a row", shape.queries);
  const int32_t grid_heads = shape.queries > 1 ? shape.heads : shape.kv_heads;
  if (shape.rows < 1 || int64_t{shape.rows} * grid_heads > kGridMax) {
    return InvalidArgument("flash: {} rows of {} heads; allowed: 1 to {} of both together",
                           shape.rows, grid_heads, kGridMax);
  }
  if (shape.table_pages < 1 || int64_t{shape.table_pages} * shape.page_size > kInt32Max) {
    return InvalidArgument("flash: block tables of {} pages of {} slots; allowed: 1 to 2^31 slots",
                           shape.table_pages, shape.page_size);
  }
  if (shape.multiprocessors < 1) {
    return InvalidArgument("flash: {} multiprocessors", shape.multiprocessors);
  }
  // The kernel finds its place among the partial results in 32 bits.
  const int32_t splits = shape.queries > 1 ? SplitsOf(shape) : MostSplits(shape);
  const int64_t partials =
      int64_t{splits} * shape.rows * shape.queries * shape.heads * int64_t{shape.head_dim};
  if (partials > kInt32Max) {
    return InvalidArgument("flash: {} rows of {} queries of {} heads are too many for {} splits",
                           shape.rows, shape.queries, shape.heads, splits);
  }
  return {};
}

}  // namespace

int32_t FlashSplitCount(int32_t blocks, int32_t slots, int32_t key_blocks, int32_t most) {
  if (static_cast<float>(blocks) >= 0.8F * static_cast<float>(slots)) return 1;
  const int32_t last = std::min({most, slots, key_blocks});
  const auto cuts_smaller = [key_blocks](int32_t splits) {
    return splits == 1 || CeilDivide(key_blocks, splits) != CeilDivide(key_blocks, splits - 1);
  };
  float best = 0;
  for (int32_t splits = 1; splits <= last; ++splits) {
    if (cuts_smaller(splits)) best = std::max(best, Occupancy(blocks * splits, slots));
  }
  for (int32_t splits = 1; splits <= last; ++splits) {
    if (cuts_smaller(splits) && Occupancy(blocks * splits, slots) >= 0.85 * best) return splits;
  }
  return 1;
}

FlashDecode::Workspace FlashDecode::LayOut(const FlashDecodeShape& shape, int32_t splits) {
  const size_t results = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.queries) *
                         static_cast<size_t>(shape.heads);
  // The kernel that merges writes log-sum-exps for whole blocks of up to 8 results, past the last.
  const size_t lse = (results + 7) / 8 * 8 * sizeof(float);
  Workspace workspace;
  workspace.split_lse = AlignUp(lse);
  workspace.split_attended = workspace.split_lse;
  workspace.bytes = workspace.split_lse;
  if (splits > 1) {
    const size_t partials = static_cast<size_t>(splits) * results;
    workspace.split_attended += AlignUp(partials * sizeof(float));
    workspace.bytes = workspace.split_attended +
                      AlignUp(partials * static_cast<size_t>(shape.head_dim) * sizeof(float));
  }
  return workspace;
}

Expected<FlashDecode> FlashDecode::Plan(const FlashDecodeShape& shape) {
  DECANT_RETURN_IF_ERROR(CheckShape(shape));
  return FlashDecode(shape, SplitsOf(shape));
}

Expected<size_t> FlashDecode::WorkspaceBound(const FlashDecodeShape& shape) {
  DECANT_RETURN_IF_ERROR(CheckShape(shape));
  return LayOut(shape, MostSplits(shape)).bytes;
}

}  // namespace decant
