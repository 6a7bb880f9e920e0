#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/cuda/split_shared.cuh"

namespace decant {

/// The warp that walks a block's items and brings their K, V and queries to shared memory. The
/// block's first item is that of its own number; later ones are claimed from a counter, so that
/// blocks that are ahead take more. Beside another kernel blocks begin whenever a multiprocessor
/// gets free, and the first item is claimed too.
///
/// What earlier kernels of the step write (queries, the rows' newest K and V) is read only after
/// waiting for them; histories are read before. Beside another kernel all of it is there already.
template <typename T, int kHeadDim, int kHeadTiles>
class SplitProducer {
 public:
  using Shared = SplitShared<T, kHeadDim, kHeadTiles>;

  __device__ SplitProducer(const SplitArgs& args, Shared& shared)
      : args_(args), shared_(shared), waited_(args.beside) {}

  /// Begins to read the work list.
  __device__ void Begin() {
    item_ = blockIdx.x;
    if (!args_.beside) word_ = LoadWord(item_);
    if (lane_ == kCountLane) word_ = __ldcg(args_.work.counts);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    policy_ = ReadOncePolicy();
#endif
  }

  __device__ void Run() {
    items_ = __shfl_sync(kAllLanes, word_, kCountLane);
    if (args_.beside) {
      item_ = __shfl_sync(kAllLanes, Claim(), 0);
      word_ = LoadWord(item_);
    }
    while (item_ < items_) CopyItem();
    TakeQuerySlot();
    GiveTask({.row_head = 0, .tokens = 0, .partial = 0, .unused = 0});
    CopyQueries(true);
  }

 private:
  static constexpr int kCountLane = 31;
  static constexpr int kHalves = kHeadDim / kTiledDims;
  static constexpr int kTokenBytes = kTiledDims * 2;  ///< of one half of the dims
  static constexpr int kQueryBytes = kHeadDim * 2;
  static constexpr int kValueBytes = SplitStageBytes(kHeadDim) / 2;

  /// Lane i's word of an item.
  __device__ int32_t LoadWord(int32_t item) const {
    const int32_t words = args_.item_words;
    return lane_ < words ? __ldcg(args_.work.items + static_cast<int64_t>(item) * words + lane_)
                         : 0;
  }

  __device__ void CopyItem() {
    const int32_t word = word_;
    const int32_t tokens = __shfl_sync(kAllLanes, word, kItemTokens);
    const bool newest = __shfl_sync(kAllLanes, word, kItemNewest) != 0;
    const SplitTask task{.row_head = __shfl_sync(kAllLanes, word, kItemRowHead),
                         .tokens = tokens,
                         .partial = __shfl_sync(kAllLanes, word, kItemPartial),
                         .unused = 0};
    TakeQuerySlot();
    GiveTask(task);

    const int32_t stages = (tokens + kSplitStageTokens - 1) / kSplitStageTokens;
    int32_t claimed = 0;
#pragma unroll 1
    for (int32_t s = 0; s < stages; ++s) {
      // As late as still hides the claim's latency behind this item's copies.
      if (s == max(stages - 3, 0)) claimed = Claim();
      // Nothing that is under way gets done before there are queries for it.
      const bool fresh = newest && s == stages - 1;
      CopyQueries(fresh || tasks_ == kQuerySlots || filled_ == args_.stages);
      WaitAtBarrier(SharedAddress(&shared_.stage_empty[stage_.index]), stage_.parity ^ 1);
      CopyStage(word, s, min(tokens - s * kSplitStageTokens, kSplitStageTokens));
      stage_.Advance(args_.stages);
      ++filled_;
      if (s == max(stages - 2, 0)) {
        item_ = __shfl_sync(kAllLanes, claimed, 0);
        word_ = LoadWord(item_);
      }
    }
  }

  /// The number of the block's next item, in lane 0. Every block claims until it gets a number past
  /// the last item. That makes as many claims as there are items, and one more a block where first
  /// items are claimed: the counter wraps to zero with the last of them, ready for its next launch.
  __device__ int32_t Claim() const {
    if (lane_ != 0) return 0;
    const uint32_t unclaimed = args_.beside ? 0 : gridDim.x;
    const uint32_t claims = items_ + gridDim.x - unclaimed;
    return static_cast<int32_t>(unclaimed + atomicInc(args_.claim, claims - 1));
  }

  __device__ void TakeQuerySlot() {
    WaitAtBarrier(SharedAddress(&shared_.query_empty[query_.index]), query_.parity ^ 1);
  }

  /// Hands a task to the computing warps; they see it once its queries have come.
  __device__ void GiveTask(const SplitTask& task) {
    if (lane_ == 0) shared_.tasks[query_.index] = task;
    __syncwarp();
    query_.Advance(kQuerySlots);
    ++tasks_;
  }

  /// Brings the queries of all tasks that were given and lack them. They may not be there yet:
  /// waits for the kernels before this one if it `must`, and else leaves it to a later call.
  __device__ void CopyQueries(bool must) {
    if (!waited_) {
      if (!must) return;
      WaitForEarlierKernels();
      waited_ = true;
    }
#pragma unroll 1
    for (; due_ < tasks_; ++due_) {
      const int32_t slot = due_ % kQuerySlots;
      const uint32_t full = SharedAddress(&shared_.query_full[slot]);
      const SplitTask task = shared_.tasks[slot];
      const int32_t heads = task.tokens > 0 ? args_.group : 0;
      const std::byte* source =
          args_.queries + static_cast<int64_t>(task.row_head) * args_.group * kQueryBytes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      if (lane_ == 0) {
        ExpectBytes(full, heads * kQueryBytes);
#pragma unroll 1
        for (int32_t head = 0; head < heads; ++head) {
          CopyBulk(SharedAddress(&shared_.queries[slot][head][0]), source + head * kQueryBytes,
                   kQueryBytes, full);
        }
      }
#else
      constexpr int kPieces = kQueryBytes / 16;
      for (int32_t i = lane_; i < heads * kPieces; i += 32) {
        CopyAsync16(SharedAddress(&shared_.queries[slot][i / kPieces][i % kPieces * 8]),
                    source + i * 16, true);
      }
      if (lane_ == 0) ArriveAtBarrier(full);
      ArriveWhenCopied(full);
#endif
    }
  }

  /// Brings positions [64 s, 64 s + tokens) of an item to the stage that is due: V after K, each in
  /// groups as the cache has them, [64 / together][halves][together][64 dims].
  __device__ void CopyStage(int32_t word, int32_t s, int32_t tokens) {
    const uint32_t full = SharedAddress(&shared_.stage_full[stage_.index]);
    const uint32_t target = shared_.Stage(stage_.index);
    const int32_t groups = kSplitStageTokens >> args_.together_log2;
    const int32_t half_bytes = args_.together * kTokenBytes;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (lane_ == 0) ExpectBytes(full, tokens * kHeadDim * 2 * 2);
#pragma unroll 1
    for (int32_t group = 0; group * args_.together < tokens; ++group) {
      const int32_t place = __shfl_sync(kAllLanes, word, kSplitItemHeader + s * groups + group);
      const std::byte* keys = args_.cache + static_cast<int64_t>(place) * args_.group_bytes;
      const int32_t here = min(tokens - group * args_.together, args_.together);
      // A whole group is one copy; of another, halves of the dims lie apart.
      const bool whole = here == args_.together;
      const int32_t bytes = whole ? args_.group_bytes : here * kTokenBytes;
      if (lane_ == 0) {
#pragma unroll 1
        for (int32_t at = 0; at < args_.group_bytes; at += whole ? args_.group_bytes : half_bytes) {
          const uint32_t to = target + group * args_.group_bytes + at;
          CopyBulkWith(policy_, to, keys + at, bytes, full);
          CopyBulkWith(policy_, to + kValueBytes, keys + args_.value_offset + at, bytes, full);
        }
      }
    }
    __syncwarp();
#else
    for (int32_t group = 0; group * args_.together < tokens; ++group) {
      const int32_t place = __shfl_sync(kAllLanes, word, kSplitItemHeader + s * groups + group);
      const int32_t here = min(tokens - group * args_.together, args_.together);
      const std::byte* keys = args_.cache + static_cast<int64_t>(place) * args_.group_bytes;
      for (int32_t part = 0; part < 2 * kHalves; ++part) {
        const int32_t is_value = part / kHalves;
        const int32_t first = part % kHalves * half_bytes;
        for (int32_t at = first + lane_ * 16; at < first + here * kTokenBytes; at += 32 * 16) {
          CopyAsync16(target + is_value * kValueBytes + group * args_.group_bytes + at,
                      keys + is_value * args_.value_offset + at, true);
        }
      }
    }
    ArriveWhenCopied(full);
#endif
  }

  const SplitArgs& args_;
  Shared& shared_;
  const int32_t lane_ = threadIdx.x % 32;
  uint64_t policy_ = 0;  ///< of the copies of K and V
  int32_t items_ = 0;
  int32_t item_ = 0;
  int32_t word_ = 0;    ///< of the item
  bool waited_;         ///< for the kernels before this one
  int32_t tasks_ = 0;   ///< given so far
  int32_t due_ = 0;     ///< tasks whose queries are under way
  int32_t filled_ = 0;  ///< stages so far
  RingPlace stage_;
  RingPlace query_;
};

}  // namespace decant
