#include "ops/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

constexpr int32_t kSplitTokens = 256;
constexpr int32_t kRowsTokens = 64;
constexpr int32_t kTileRows = 48;

}  // namespace

CpuAttention::CpuAttention(const DecoderShape& shape, DecodeKernel kernel,
                           const CpuKernels& kernels, ThreadPool& pool)
    : shape_(shape),
      kernel_(kernel),
      planned_kernel_(kernel),
      kernels_(kernels),
      pool_(pool),
      tile_queries_(std::max(1, kTileRows / shape.group())),
      scratch_(pool.threads()) {
  DECANT_CHECK(shape.group() <= kMaxRangeRows, "{} query heads share a KV head", shape.group());
  const int32_t rows = tile_queries_ * shape.group();
  for (WorkerScratch& scratch : scratch_) {
    scratch.range.resize(kRangeScratchFloats);
    scratch.running.resize(PartialFloats(rows));
    scratch.current.resize(PartialFloats(rows));
    scratch.queries.resize(static_cast<size_t>(rows) * shape.head_dim);
  }
}

void CpuAttention::Plan(const StepBatch& batch, const CpuKvCache& cache) {
  batch_ = &batch;
  planned_kernel_ = kernel_;
  items_.clear();
  partials_ = 0;
  groups_ = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (batch.rows[i].query_len == 1) {
      PlanDecode(index, batch.rows[i]);
    } else {
      PlanTiles(index, batch.rows[i]);
    }
  }
  // The largest first, so that the threads end together.
  std::stable_sort(items_.begin(), items_.end(),
                   [](const Item& a, const Item& b) { return a.cost > b.cost; });
  const int64_t floats = partials_ * PartialFloats(shape_.group());
  if (static_cast<int64_t>(partial_memory_.size()) < floats) partial_memory_.resize(floats);
  if (arrivals_size_ < groups_) {
    arrivals_ = std::make_unique<std::atomic<int32_t>[]>(groups_);
    arrivals_size_ = groups_;
  }
  for (int32_t i = 0; i < groups_; ++i) arrivals_[i].store(0, std::memory_order_relaxed);
  for (WorkerScratch& scratch : scratch_) scratch.blocks.resize(cache.RangeScratch());
}

void CpuAttention::PlanTiles(int32_t row_index, const BatchRow& row) {
  for (int32_t first = 0; first < row.query_len; first += tile_queries_) {
    const int32_t queries = std::min(tile_queries_, row.query_len - first);
    const int32_t keys = row.context_len - row.query_len + first + queries;
    for (int32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
      items_.push_back(Item{.row = row_index,
                            .kv_head = kv_head,
                            .first_query = first,
                            .queries = queries,
                            .range_tokens = kSplitTokens,
                            .first_range = 0,
                            .last_range = CeilDiv(keys, kSplitTokens),
                            .cost = int64_t{keys} * queries});
    }
  }
}

void CpuAttention::PlanDecode(int32_t row_index, const BatchRow& row) {
  const bool split = kernel_ == DecodeKernel::kSplit;
  const int32_t range_tokens = split ? kSplitTokens : kRowsTokens;
  const int32_t ranges = CeilDiv(row.context_len, range_tokens);
  const int32_t item_ranges = split ? 1 : ranges;
  for (int32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
    Item item{.row = row_index,
              .kv_head = kv_head,
              .first_query = 0,
              .queries = 1,
              .range_tokens = range_tokens,
              .group_items = CeilDiv(ranges, item_ranges)};
    if (item.group_items > 1) item.group = groups_++;
    for (int32_t range = 0; range < ranges; range += item_ranges) {
      item.first_range = range;
      item.last_range = range + item_ranges;
      item.partial = item.group_items > 1 ? partials_++ : -1;
      item.cost = std::min(row.context_len, item.last_range * range_tokens) - range * range_tokens;
      items_.push_back(item);
    }
  }
}

void CpuAttention::Run(int32_t layer, const CpuKvCache& cache, TensorView queries, TensorView out) {
  DECANT_CHECK(batch_ != nullptr, "attention runs after it was planned");
  if (planned_kernel_ != kernel_) Plan(*batch_, cache);
  pool_.Run(static_cast<int64_t>(items_.size()), [&](int64_t item, int worker) {
    RunItem(items_[item], layer, cache, queries, out, worker);
  });
}

CpuAttention::Partial CpuAttention::PartialAt(float* memory, int32_t rows) const {
  return {.max = memory, .sum = memory + rows, .acc = memory + int64_t{2} * rows};
}

void CpuAttention::RunItem(const Item& item, int32_t layer, const CpuKvCache& cache,
                           TensorView queries, TensorView out, int worker) {
  WorkerScratch& scratch = scratch_[worker];
  const BatchRow& row = batch_->rows[item.row];
  const int32_t group = shape_.group();
  const int32_t rows = item.queries * group;
  const int64_t head_offset = int64_t{item.kv_head} * group * shape_.head_dim;
  const Bf16* q = queries.Row<Bf16>(row.query_start + item.first_query) + head_offset;
  if (item.queries > 1) {
    const int64_t query_floats = int64_t{group} * shape_.head_dim;
    for (int32_t i = 0; i < item.queries; ++i) {
      std::copy_n(queries.Row<Bf16>(row.query_start + item.first_query + i) + head_offset,
                  query_floats, scratch.queries.data() + i * query_floats);
    }
    q = scratch.queries.data();
  }
  if (item.partial < 0) {
    const Partial result = PartialAt(scratch.running.data(), rows);
    WalkRanges(item, layer, cache, q, rows, result, scratch);
    Finish(item, result, out);
    return;
  }
  const auto partial = [&](int32_t index) {
    return PartialAt(partial_memory_.data() + index * PartialFloats(group), group);
  };
  WalkRanges(item, layer, cache, q, rows, partial(item.partial), scratch);
  // Counters are not reset between layers: every layer adds the same number of arrivals.
  const int32_t arrived = arrivals_[item.group].fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrived % item.group_items != 0) return;
  const int32_t first = item.partial - item.first_range;
  const Partial result = partial(first);
  for (int32_t i = 1; i < item.group_items; ++i) Merge(result, partial(first + i), rows);
  Finish(item, result, out);
}

void CpuAttention::WalkRanges(const Item& item, int32_t layer, const CpuKvCache& cache,
                              const Bf16* q, int32_t rows, Partial into, WorkerScratch& scratch) {
  const BatchRow& row = batch_->rows[item.row];
  const int32_t first_position = row.context_len - row.query_len + item.first_query;
  const int32_t keys = first_position + item.queries;
  std::array<const Bf16*, kMaxRangeTokens / kBlockTokens> k_blocks;
  std::array<const Bf16*, kMaxRangeTokens / kBlockTokens> v_blocks;
  std::array<int32_t, kMaxRangeRows> visible;
  const Partial current = PartialAt(scratch.current.data(), rows);
  for (int32_t range = item.first_range; range < item.last_range; ++range) {
    const int32_t first = range * item.range_tokens;
    const int32_t range_keys = std::min(item.range_tokens, keys - first);
    cache.RangeBlocks(layer, item.kv_head, row.pages, first, range_keys, scratch.blocks.data(),
                      k_blocks.data(), v_blocks.data());
    for (int32_t r = 0; r < rows; ++r) {
      visible[r] = first_position + r / shape_.group() - first + 1;
    }
    const Partial& target = range == item.first_range ? into : current;
    kernels_.attend_range(AttendRangeArgs{
        .q = q,
        .visible = visible.data(),
        .k_blocks = k_blocks.data(),
        .v_blocks = v_blocks.data(),
        .rows = rows,
        .keys = range_keys,
        .head_dim = shape_.head_dim,
        .scale = static_cast<float>(std::log2(std::exp(1.0)) / std::sqrt(shape_.head_dim)),
        .scratch = scratch.range.data(),
        .max = target.max,
        .sum = target.sum,
        .acc = target.acc});
    if (range != item.first_range) Merge(into, current, rows);
  }
}

void CpuAttention::Merge(Partial into, Partial range, int32_t rows) const {
  for (int32_t r = 0; r < rows; ++r) {
    // A row that saw nothing of the range (a later query of its tile did) keeps its bits.
    if (range.max[r] == -std::numeric_limits<float>::infinity()) continue;
    const int64_t offset = int64_t{r} * shape_.head_dim;
    kernels_.merge_partial(into.max + r, into.sum + r, into.acc + offset, range.max[r],
                           range.sum[r], range.acc + offset, shape_.head_dim);
  }
}

void CpuAttention::Finish(const Item& item, Partial result, TensorView out) const {
  const int32_t group = shape_.group();
  const int32_t dim = shape_.head_dim;
  const BatchRow& row = batch_->rows[item.row];
  for (int32_t i = 0; i < item.queries; ++i) {
    const int32_t token = row.query_start + item.first_query + i;
    for (int32_t head = 0; head < group; ++head) {
      const int32_t r = i * group + head;
      const float inverse = 1.0F / result.sum[r];
      float* acc = result.acc + int64_t{r} * dim;
      for (int32_t d = 0; d < dim; ++d) acc[d] *= inverse;
      const int64_t column = (int64_t{item.kv_head} * group + head) * dim;
      if (out.dtype == DType::kBf16) {
        kernels_.to_bf16(acc, dim, out.Row<Bf16>(token) + column);
      } else {
        std::copy_n(acc, dim, out.Row<float>(token) + column);
      }
    }
  }
}

}  // namespace decant
