#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/kv_cache.h"
#include "ops/cpu/thread_pool.h"
#include "ops/ops.h"
#include "ops/step_batch.h"
#include "tensor/tensor_view.h"

namespace decant {

/// Attention of a step on the CPU: planned once a step, run once a layer.
///
/// A query's history is cut into ranges of 256 positions from position 0; each range gives a
/// partial result, and partials are merged in order of position. Prompt chunks do so tile by tile,
/// a tile's ranges one after another on one thread; `split` spreads a decode token's ranges over
/// the threads, and the last to finish merges them. Both make the same sums in the same order, so a
/// query's bits depend on its row's history only. `rows` walks a decode token's history on one
/// thread in ranges of 64.
class CpuAttention {
 public:
  CpuAttention(const DecoderShape& shape, DecodeKernel kernel, const CpuKernels& kernels,
               ThreadPool& pool);

  DecodeKernel kernel() const { return kernel_; }
  /// From the next Run on, decode tokens take this kernel.
  void UseKernel(DecodeKernel kernel) { kernel_ = kernel; }

  /// Builds the step's work list. `batch` must stay as it is until the step has run.
  void Plan(const StepBatch& batch, const CpuKvCache& cache);

  /// queries [tokens, heads * head_dim] bf16 → out [tokens, heads * head_dim], bf16 or fp32.
  void Run(int32_t layer, const CpuKvCache& cache, TensorView queries, TensorView out);

 private:
  /// A tile of a row's queries for one KV head, against the ranges [first_range, last_range).
  struct Item {
    int32_t row = 0;
    int32_t kv_head = 0;
    int32_t first_query = 0;
    int32_t queries = 0;
    int32_t range_tokens = 0;
    int32_t first_range = 0;
    int32_t last_range = 0;
    int32_t partial =
        -1;  ///< Where the item's result waits for the merge; -1: the item is a whole tile.
    int32_t group = -1;  ///< Index of the tile's arrival counter.
    int32_t group_items = 0;
    int64_t cost = 0;
  };

  /// A running result of `rows` query rows.
  struct Partial {
    float* max;
    float* sum;
    float* acc;
  };

  struct WorkerScratch {
    std::vector<float> range;
    std::vector<float> running;
    std::vector<float> current;
    std::vector<Bf16> blocks;
    std::vector<Bf16> queries;
  };

  void PlanTiles(int32_t row_index, const BatchRow& row);
  void PlanDecode(int32_t row_index, const BatchRow& row);
  void RunItem(const Item& item, int32_t layer, const CpuKvCache& cache, TensorView queries,
               TensorView out, int worker);
  void WalkRanges(const Item& item, int32_t layer, const CpuKvCache& cache, const Bf16* q,
                  int32_t rows, Partial into, WorkerScratch& scratch);
  void Merge(Partial into, Partial range, int32_t rows) const;
  void Finish(const Item& item, Partial result, TensorView out) const;
  Partial PartialAt(float* memory, int32_t rows) const;
  int64_t PartialFloats(int32_t rows) const { return int64_t{rows} * (shape_.head_dim + 2); }

  DecoderShape shape_;
  DecodeKernel kernel_;
  DecodeKernel planned_kernel_;  ///< What the work list was built for.
  const CpuKernels& kernels_;
  ThreadPool& pool_;
  int32_t tile_queries_;

  const StepBatch* batch_ = nullptr;
  std::vector<Item> items_;
  int32_t partials_ = 0;
  int32_t groups_ = 0;
  std::vector<float> partial_memory_;
  std::unique_ptr<std::atomic<int32_t>[]> arrivals_;
  int32_t arrivals_size_ = 0;
  std::vector<WorkerScratch> scratch_;
};

}  // namespace decant
