#include "ops/cuda/cache_layout.h"
#include "ops/cuda/split_items.h"

namespace decant {
namespace {

constexpr int kThreads = kSplitMaxRows;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr int kVectorWords = 4;

struct ItemsArgs {
  const int32_t* context_lens;
  const int32_t* block_tables;
  int32_t table_stride;
  int32_t rows;              ///< where there are counts: at most
  const StepCounts* counts;  ///< or null
  int32_t kv_heads;
  int32_t page_size;
  int32_t together;  ///< slots of a group
  SplitWork work;
};

/// Cuts of a row, and sums of them over rows.
struct Cuts {
  int32_t whole = 0;     ///< cuts of kSplitTokens that hold no newest position
  int32_t last = 0;      ///< 1: the last cut has kSplitTokens too
  int32_t partials = 0;  ///< 0 where the row is one cut
  int32_t merges = 0;    ///< 1 where there are partials

  __device__ void Add(const Cuts& other) {
    whole += other.whole;
    last += other.last;
    partials += other.partials;
    merges += other.merges;
  }
};

struct Row {
  int32_t context;
  int32_t rest;  ///< positions of the last cut if they are fewer than kSplitTokens, else 0
  int32_t rank;  ///< rows whose rest comes before its own
  Cuts before;   ///< of earlier rows
};

__device__ Cuts CutsOf(int32_t context) {
  if (context <= 0) return {};
  const int32_t cuts = (context + kSplitTokens - 1) / kSplitTokens;
  return {.whole = cuts - 1,
          .last = context % kSplitTokens == 0 ? 1 : 0,
          .partials = cuts > 1 ? cuts : 0,
          .merges = cuts > 1 ? 1 : 0};
}

/// The sum over the threads before this one; `total`: over all. All threads call it, once.
__device__ Cuts SumBefore(const Cuts& mine, Cuts& total) {
  __shared__ Cuts warps[kWarps];
  const int lane = threadIdx.x % 32;
  Cuts sum = mine;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Cuts other{.whole = __shfl_up_sync(kAllLanes, sum.whole, offset),
                     .last = __shfl_up_sync(kAllLanes, sum.last, offset),
                     .partials = __shfl_up_sync(kAllLanes, sum.partials, offset),
                     .merges = __shfl_up_sync(kAllLanes, sum.merges, offset)};
    if (lane >= offset) sum.Add(other);
  }
  if (lane == 31) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  Cuts before;
  total = {};
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < threadIdx.x / 32) before.Add(warps[warp]);
    total.Add(warps[warp]);
  }
  before.Add({.whole = sum.whole - mine.whole,
              .last = sum.last - mine.last,
              .partials = sum.partials - mine.partials,
              .merges = sum.merges - mine.merges});
  return before;
}

/// The groups of positions [first, first + 4 * together) of a row, for the KV head 0.
__device__ int4 GroupsOf(const ItemsArgs& args, int32_t row, int32_t first, int32_t context) {
  const int32_t groups_of_page = args.page_size / args.together;
  int32_t groups[kVectorWords];
#pragma unroll
  for (int i = 0; i < kVectorWords; ++i) {
    const int32_t position = first + i * args.together;
    groups[i] = 0;
    if (position < context) {
      const int32_t entry = position / args.page_size;
      const int32_t page = args.block_tables[static_cast<int64_t>(row) * args.table_stride + entry];
      groups[i] = page * args.kv_heads * 2 * groups_of_page +
                  (position - entry * args.page_size) / args.together;
    }
  }
  return make_int4(groups[0], groups[1], groups[2], groups[3]);
}

/// Items in the order in which blocks begin them: cuts of kSplitTokens without a newest position,
/// those with one, then the rows' rests, longest first, so that the last items begun are the
/// shortest ones and all blocks end together.
__global__ void __launch_bounds__(kThreads) SplitItemsKernel(ItemsArgs args) {
  __shared__ Row rows[kSplitMaxRows];
  const int32_t kv_heads = args.kv_heads;
  const int32_t row_count = args.counts == nullptr ? args.rows : args.counts->decode_rows;
  {
    // Both numbers are asked for at once.
    const int32_t read = threadIdx.x < args.rows ? args.context_lens[threadIdx.x] : 0;
    const int32_t context = threadIdx.x < row_count ? read : 0;
    rows[threadIdx.x].context = context;
    rows[threadIdx.x].rest = max(context, 0) % kSplitTokens;
  }
  Cuts total;
  const Cuts mine = CutsOf(rows[threadIdx.x].context);
  const Cuts before = SumBefore(mine, total);
  Row& row = rows[threadIdx.x];
  row.before = before;
  int32_t rank = 0;
  int32_t rests = 0;
#pragma unroll 8
  for (int32_t other = 0; other < row_count; ++other) {
    const int32_t rest = rows[other].rest;
    rests += rest > 0 ? 1 : 0;
    rank += rest > row.rest || (rest == row.rest && other < threadIdx.x) ? 1 : 0;
  }
  row.rank = rank;
  for (int32_t head = 0; head < kv_heads && mine.merges > 0; ++head) {
    args.work.merges[before.merges * kv_heads + head] =
        make_int4(threadIdx.x * kv_heads + head, mine.partials,
                  before.partials * kv_heads + head * mine.partials, 0);
  }
  if (threadIdx.x == 0) {
    args.work.counts[0] = kv_heads * (total.whole + total.last + rests);
    args.work.counts[1] = kv_heads * total.merges;
  }
  __syncthreads();

  // A thread writes four words of an item for every KV head: its header, or some of its groups.
  const int32_t words = SplitItemWords(args.together);
  const int32_t vectors = words / kVectorWords;
  const int32_t first_last = kv_heads * total.whole;
  const int32_t first_rest = first_last + kv_heads * total.last;
  const int32_t groups_of_page = args.page_size / args.together;
  for (int32_t i = threadIdx.x; i < (total.whole + row_count) * vectors; i += kThreads) {
    const int32_t cut_of_all = i / vectors;
    const int32_t vector = i % vectors;
    // The last row that begins at or before this cut; rows before row r have before.whole + r.
    int32_t r = 0;
#pragma unroll
    for (int32_t step = kSplitMaxRows / 2; step > 0; step /= 2) {
      if (r + step < row_count && rows[r + step].before.whole + r + step <= cut_of_all) r += step;
    }
    const Row& of = rows[r];
    if (of.context <= 0) continue;
    const int32_t cut = cut_of_all - of.before.whole - r;
    const Cuts cuts = CutsOf(of.context);
    const bool newest = cut == cuts.whole;
    const int32_t tokens = min(kSplitTokens, of.context - cut * kSplitTokens);
    int4 value;
    if (vector > 0) {
      value = GroupsOf(args, r, cut * kSplitTokens + (vector - 1) * kVectorWords * args.together,
                       of.context);
    }
    for (int32_t head = 0; head < kv_heads; ++head) {
      int32_t place = of.before.whole * kv_heads + head * cuts.whole + cut;
      if (newest && cuts.last > 0) place = first_last + of.before.last * kv_heads + head;
      if (newest && cuts.last == 0) place = first_rest + of.rank * kv_heads + head;
      if (vector == 0) {
        const int32_t partial =
            cuts.partials == 0 ? -1 : of.before.partials * kv_heads + head * cuts.partials + cut;
        value = make_int4(r * kv_heads + head, tokens, partial, newest ? 1 : 0);
      }
      reinterpret_cast<int4*>(args.work.items + static_cast<int64_t>(place) * words)[vector] =
          value;
      if (vector > 0) {
        const int32_t next_head = 2 * groups_of_page;
        value.x += next_head;
        value.y += next_head;
        value.z += next_head;
        value.w += next_head;
      }
    }
  }
  // The attention kernel may read the list before it waits for the kernels before it.
  __threadfence();
}

}  // namespace

void LaunchSplitItems(const StepArrays& step, int32_t max_rows, int32_t kv_heads, int32_t page_size,
                      const SplitWork& work, cudaStream_t stream) {
  // A graph of it serves steps of any number of rows.
  const int32_t rows = step.counts == nullptr ? step.decode_rows : max_rows;
  // Without the attribute of LaunchOverlapped: histories of earlier steps are complete in memory
  // when this runs, which is why the attention kernels after it may load them at once.
  SplitItemsKernel<<<1, kThreads, 0, stream>>>({.context_lens = step.context_lens,
                                                .block_tables = step.block_tables,
                                                .table_stride = step.table_stride,
                                                .rows = rows,
                                                .counts = step.counts,
                                                .kv_heads = kv_heads,
                                                .page_size = page_size,
                                                .together = TiledSlots(page_size),
                                                .work = work});
}

}  // namespace decant
