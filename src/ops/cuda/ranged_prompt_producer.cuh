#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/cuda/ranged_prompt_parts.cuh"

namespace decant::ranged_prompt {

/// Items past the first gridDim.x are taken by counting. Every block that begins with an item, but
/// those that merge, takes until it gets none, so each launch counts up by items - mergers exactly,
/// and where in its launch a count is can be told without resetting it. Returns counts.items or
/// more where none is left.
__device__ inline int32_t TakeItem(const Args& args, const PromptPlanCounts& counts) {
  const unsigned long long count = atomicAdd(args.claims, 1ULL) + 1;
  const auto claims = static_cast<unsigned>(counts.items - counts.mergers);
  return static_cast<int32_t>(count % claims + gridDim.x);
}

/// How many launches since the plan came before this one. Every block of a launch asks once, so the
/// answer is the same for all of them, however late one begins.
__device__ inline unsigned long long CountLaunches(const Args& args) {
  return (atomicAdd(args.arrivals, 1ULL) + 1) / gridDim.x;
}

/// The producer warp: takes items, tells the consumers of them, and keeps the ring of keys and
/// values filled.
template <int kHeadDim>
class Producer {
 public:
  __device__ Producer(const Args& args, std::byte* shared)
      : args_(args),
        shared_(shared),
        shared_address_(SharedAddress(shared)),
        barriers_{shared_address_ + Place::kBarriersAt},
        lane_(threadIdx.x % 32),
        half_(lane_ % Place::kHalves),
        first_key_(lane_ / Place::kHalves * args.tiled_slots),
        counts_(LoadCounts(args)) {}

  __device__ void Run() {
    PromptItem item = LoadItem(blockIdx.x);
    while (true) {
      Tell(item);
      if (item.rows == 0) return;
      item = Stream(item);
    }
  }

  /// Finds out the launch's tag and tells it to the consumers: the work of another warp, off the
  /// way of the first keys. And lets the next kernel start, in every block, only now: once it does,
  /// all blocks of this launch are resident and all kernels before it are done, so that it need not
  /// wait for what those wrote (SplitLaunch::beside).
  __device__ static void TellTag(const Args& args, std::byte* shared) {
    WaitForEarlierKernels();
    LetLaterKernelsStart();
    if (threadIdx.x % 32 != 0) return;
    *reinterpret_cast<volatile uint32_t*>(shared + Place::kTagAt) =
        static_cast<uint32_t>(CountLaunches(args) & 1);
    ArriveAtBarrier(Barriers<kHeadDim>{SharedAddress(shared) + Place::kBarriersAt}.TagKnown());
  }

 private:
  using Place = Places<kHeadDim>;

  __device__ PromptItem LoadItem(int32_t number) const {
    PromptItem item;
    if (number >= counts_.items) return item;
    const auto* from = reinterpret_cast<const int4*>(args_.items + number);
    auto* to = reinterpret_cast<int4*>(&item);
#pragma unroll
    for (int i = 0; i < 3; ++i) to[i] = __ldcg(from + i);
    return item;
  }

  /// Hands an item to the consumers; one of 0 rows is the end.
  __device__ void Tell(const PromptItem& item) {
    const int place = items_.place();
    AwaitPhase(barriers_.ItemEmpty(place), items_.parity() ^ 1);
    const auto* pieces = reinterpret_cast<const int4*>(&item);
    auto* to = reinterpret_cast<int4*>(shared_ + Place::kItemsAt) + place * 3;
    if (lane_ == 0) {
#pragma unroll
      for (int i = 0; i < 3; ++i) to[i] = pieces[i];
    }
    __syncwarp();
    if (lane_ == 0) ArriveAtBarrier(barriers_.ItemFull(place));
    ++items_.count;
  }

  /// The page of this lane's part of the block of keys that begins at `key`.
  __device__ int32_t LoadPage(const PromptItem& item, int32_t key, uint32_t& slot) const {
    const int32_t position = key + first_key_;
    slot = args_.by_page.Remainder(position / 16) * 16;
    if (first_key_ >= kKeys || position >= min(item.context, item.key_end)) return 0;
    return __ldcg(args_.block_tables + item.table + args_.by_page.Quotient(position / 16));
  }

  /// Copies an item's keys and values, and takes the next item when the last of them are asked for:
  /// late, so that blocks which are slower take fewer.
  __device__ PromptItem Stream(const PromptItem& item) {
    int32_t next = 0;
    uint32_t slot;
    int32_t page = LoadPage(item, item.key_begin, slot);
    for (int32_t key = item.key_begin; key < item.key_end; key += kKeys) {
      const bool last = key + kKeys >= item.key_end;
      // The chunk's own keys are written by the kernel before this one.
      if (!waited_ && (last || key + kKeys > item.first_position)) {
        WaitForEarlierKernels();
        waited_ = true;
      }
      if (last) {
        // Blocks of the launch before may still take items until then.
        AwaitPhase(barriers_.TagKnown(), 0);
        next = counts_.items;
        if (lane_ == 0 && item.awaited == 0) next = TakeItem(args_, counts_);
      }
      const int64_t from = page * args_.page_bytes + item.kv_head * args_.head_bytes +
                           int64_t{slot} * kHeadDim * 2 + half_ * args_.tiled_slots * 128;
      if (!last) page = LoadPage(item, key + kKeys, slot);
      CopyBlock(key, item, args_.cache + from);
      ++block_.count;
    }
    return LoadItem(__shfl_sync(0xffffffffU, next, 0));
  }

  __device__ void CopyBlock(int32_t key, const PromptItem& item, const std::byte* keys) {
    const int stage = block_.place();
    const uint32_t parity = block_.parity() ^ 1;
    const int32_t written = min(item.context - key, kKeys);
    // Whole blocks are copied as far as they are written: beyond the item's keys weights are 0.
    const int32_t mine =
        key + first_key_ < item.key_end ? min(written - first_key_, args_.tiled_slots) : 0;
    const int32_t groups =
        (min(written, item.key_end - key) + args_.tiled_slots - 1) / args_.tiled_slots;
    const int32_t copied = min(written, groups * args_.tiled_slots);
    const bool copies = first_key_ < kKeys && mine > 0;
    const uint32_t to = shared_address_ + stage * Place::kBlockBytes +
                        half_ * (Place::kBlockBytes / Place::kHalves) + first_key_ * 128;

    AwaitPhase(barriers_.KeysEmpty(stage), parity);
    if (lane_ == 0) ExpectBytes(barriers_.KeysFull(stage), copied * kHeadDim * 2);
    __syncwarp();
    if (copies) CopyBulk(to + Place::kKeysAt, keys, mine * 128, barriers_.KeysFull(stage));

    AwaitPhase(barriers_.ValuesEmpty(stage), parity);
    if (copied < kKeys) ClearValues(stage, copied);
    if (lane_ == 0) ExpectBytes(barriers_.ValuesFull(stage), copied * kHeadDim * 2);
    __syncwarp();
    if (copies) {
      CopyBulk(to + Place::kValuesAt, keys + args_.values_bytes, mine * 128,
               barriers_.ValuesFull(stage));
    }
  }

  /// Values that are not copied have weight 0; 0 times what lies there must be 0 too.
  __device__ void ClearValues(int stage, int32_t first) {
    constexpr int kPieces = kHeadDim / 8;
    std::byte* values = shared_ + Place::kValuesAt + stage * Place::kBlockBytes;
    for (int i = lane_; i < (kKeys - first) * kPieces; i += 32) {
      const int key = first + i / kPieces;
      const int piece = i % kPieces;
      *reinterpret_cast<uint4*>(values + piece / 8 * (Place::kBlockBytes / Place::kHalves) +
                                key * 128 + piece % 8 * 16) = make_uint4(0, 0, 0, 0);
    }
    FenceSharedForProducts();
    __syncwarp();
  }

  const Args& args_;
  std::byte* shared_;
  uint32_t shared_address_;
  Barriers<kHeadDim> barriers_;
  int lane_;
  int half_;       ///< This lane's part of every block: dims from 64 * half_ on,
  int first_key_;  ///< tiled_slots keys from first_key_ on; kKeys or more: none.
  const PromptPlanCounts counts_;
  RingPlace items_;
  RingPlace block_;
  bool waited_ = false;
};

}  // namespace decant::ranged_prompt
