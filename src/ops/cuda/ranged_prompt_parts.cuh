#pragma once

#include <cstdint>

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/attention_wgmma.cuh"
#include "ops/cuda/divider.h"
#include "ops/cuda/prompt_plan.h"
#include "ops/cuda/tensor_core.cuh"

/// What the producer, the consumers and the merge of the ranged prompt kernel share.
namespace decant::ranged_prompt {

inline constexpr int kKeys = kPromptKeys;
inline constexpr int kPartRows = kPromptPartRows;
inline constexpr int kStages = 2;
inline constexpr int kParts = 2;  ///< Warpgroups that consume.
inline constexpr int kPartThreads = 128;
inline constexpr int kConsumerThreads = kParts * kPartThreads;
inline constexpr int kConsumerWarps = kConsumerThreads / 32;
inline constexpr int kThreads = kPartThreads + kConsumerThreads;

struct Args {
  const void* queries;  ///< [tokens, heads, head_dim]
  void* attended;       ///< the same
  const std::byte* cache;
  int64_t page_bytes;    ///< From a page to the next.
  int64_t head_bytes;    ///< From a KV head's block of keys to the next head's.
  int64_t values_bytes;  ///< From a block of keys to that of the values.
  int32_t tiled_slots;   ///< TiledSlots of the page size.
  Divider by_page;       ///< Of positions, in units of 16.
  Divider by_group;      ///< Of packed rows.
  int32_t heads;
  int32_t group;
  float scale_log2;  ///< log2(e) / sqrt(head_dim): exp2 is what is computed
  const int32_t* block_tables;
  const PromptItem* items;
  const PromptMerge* merges;
  const PromptPlanCounts* counts;  ///< LoadCounts
  /// Counts that go on through all launches of a plan; both begin at the largest number, which is
  /// what the workspace holds then.
  unsigned long long* claims;    ///< Items taken; see TakeItem.
  unsigned long long* arrivals;  ///< Blocks that began; see CountLaunches.
  /// [slots, SlotPieces]: of a range, the scales and then the sums of up to 64 rows.
  float4* partials;
};

/// The sizes of the plan: in device memory, so that a graph's launch serves whatever plan is there.
/// The grid does not follow them; a block without an item of its number ends at once. As all of the
/// plan it is read from the L2 cache: the plan of the step before lay at the same place.
__device__ inline PromptPlanCounts LoadCounts(const Args& args) {
  const int4 counts = __ldcg(reinterpret_cast<const int4*>(args.counts));
  PromptPlanCounts loaded;
  loaded.items = counts.x;
  loaded.merges = counts.y;
  loaded.slots = counts.z;
  loaded.mergers = counts.w;
  return loaded;
}

/// A slot of partial sums. First [32] scales: maximum and sum of row r, maximum and sum of row r
/// + 8. Then [head_dim / 8, 128 threads] sums: columns 8 i + 2 (t % 4) and the next of the same
/// rows.
inline constexpr int kScalePieces = kPartRows / 2;
constexpr int SlotPieces(int head_dim) { return kScalePieces + head_dim / 8 * kPartThreads; }

/// Where things lie in shared memory, in bytes.
template <int kHeadDim>
struct Places {
  static constexpr int kHalves = kHeadDim / 64;
  static constexpr int kBlockBytes = kKeys * kHeadDim * 2;      ///< [halves][128 keys][64 dims]
  static constexpr int kQueryBytes = kPartRows * kHeadDim * 2;  ///< [halves][64 rows][64 dims]
  static constexpr int kTotalBytes = kPartRows * kHeadDim * 4;  ///< [head_dim / 8][128 threads][4]
  static constexpr int kKeysAt = 0;
  static constexpr int kValuesAt = kKeysAt + kStages * kBlockBytes;
  static constexpr int kQueriesAt = kValuesAt + kStages * kBlockBytes;
  static constexpr int kTotalsAt = kQueriesAt + kParts * kQueryBytes;
  static constexpr int kBarriersAt = kTotalsAt + kParts * kTotalBytes;
  static constexpr int kItemsAt = kBarriersAt + 128;
  static constexpr int kTagAt = kItemsAt + 2 * static_cast<int>(sizeof(PromptItem));
  static constexpr int kMergesAt = kTagAt + 32;
  static constexpr int kBytes = kMergesAt + kConsumerWarps * static_cast<int>(sizeof(PromptMerge));
  /// What each consumer warp has for the merge, in pieces of 16 bytes a lane.
  static constexpr int kMergePieces = kBarriersAt / kConsumerWarps / 512;
  static_assert(kBytes <= 227 * 1024);
};

/// The block's barriers, by what their phases mean.
template <int kHeadDim>
struct Barriers {
  uint32_t base;  ///< SharedAddress of the first

  __device__ uint32_t KeysFull(int stage) const { return base + 8 * stage; }
  __device__ uint32_t KeysEmpty(int stage) const { return base + 8 * (2 + stage); }
  __device__ uint32_t ValuesFull(int stage) const { return base + 8 * (4 + stage); }
  __device__ uint32_t ValuesEmpty(int stage) const { return base + 8 * (6 + stage); }
  __device__ uint32_t ItemFull(int place) const { return base + 8 * (8 + place); }
  __device__ uint32_t ItemEmpty(int place) const { return base + 8 * (10 + place); }
  __device__ uint32_t TagKnown() const { return base + 8 * 12; }

  __device__ void Init() const {
    constexpr int kReaders = kConsumerWarps * kArrivingLanes;
    for (int i = 0; i < 2; ++i) {
      InitBarrier(KeysFull(i), 1);
      InitBarrier(KeysEmpty(i), kReaders);
      InitBarrier(ValuesFull(i), 1);
      InitBarrier(ValuesEmpty(i), kReaders);
      InitBarrier(ItemFull(i), 1);
      InitBarrier(ItemEmpty(i), kReaders);
    }
    InitBarrier(TagKnown(), 1);
    FenceBarrierInit();
  }
};

/// Waits until the barrier's phase of this parity is over. WaitAtBarrier as one loop of the
/// assembler, which takes fewer registers.
__device__ inline void AwaitPhase(uint32_t barrier, uint32_t parity) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred over;\n"
      "Again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra Over;\nbra Again;\nOver:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#else
  WaitAtBarrier(barrier, parity);
#endif
}

/// A place in a ring of two, and the parity of the phase in which it is used.
struct RingPlace {
  uint32_t count = 0;
  __device__ int place() const { return count & 1; }
  __device__ uint32_t parity() const { return count >> 1 & 1; }
};

// Every word of a partial sum carries the launch's tag in its lowest bit, and the launch before
// left the other tag there: a word says itself whether it has been written, without flags or
// fences. So that bit is cleared in the sums of every range and in every total, stored or not.

__device__ inline float Untagged(uint32_t bits) { return __uint_as_float(bits & ~1U); }
__device__ inline float Untagged(float value) { return Untagged(__float_as_uint(value)); }
__device__ inline uint32_t Tagged(float value, uint32_t tag) {
  return (__float_as_uint(value) & ~1U) | tag;
}

/// Not 0 where a word of `value` has another tag.
__device__ inline uint32_t Stale(const uint4& value, uint32_t tag) {
  return ((value.x ^ tag) | (value.y ^ tag) | (value.z ^ tag) | (value.w ^ tag)) & 1U;
}

__device__ inline void StoreRelaxed(float4* to, const uint4& value) {
  asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

__device__ inline uint4 LoadRelaxed(const float4* from) {
  uint4 value;
  asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from)
               : "memory");
  return value;
}

/// 2 to the power of x, within 2 units in the last place.
__device__ inline float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// One row's maximum (of scores times scale_log2) and sum of exponentials.
struct RowScale {
  float max = 0;
  float sum = 0;
};

/// What the values of a total and of a range are multiplied by when the total takes the range in.
struct MergeFactors {
  float total;
  float range;
};

/// The only way that ranges are merged, so that it does not matter who does it. `total` holds range
/// 0, so its maximum is finite; a range in which the row has no key has the maximum -inf.
__device__ inline MergeFactors MergeScale(RowScale& total, const RowScale& range) {
  const float max = fmaxf(total.max, range.max);
  const MergeFactors factors{Exp2(total.max - max), Exp2(range.max - max)};
  total.max = max;
  total.sum = Untagged(__fmaf_rn(range.sum, factors.range, __fmul_rn(total.sum, factors.total)));
  return factors;
}

__device__ inline float MergeValue(float total, float range, const MergeFactors& factors) {
  return Untagged(__fmaf_rn(range, factors.range, __fmul_rn(total, factors.total)));
}

/// Where a packed row's head begins in queries and attended.
template <int kHeadDim>
__device__ inline int64_t HeadAt(const Args& args, int32_t token_start, int32_t kv_head,
                                 int32_t packed_row) {
  const auto token = static_cast<int32_t>(args.by_group.Quotient(packed_row));
  const int32_t head = kv_head * args.group + packed_row - token * args.group;
  return (int64_t{token_start + token} * args.heads + head) * kHeadDim;
}

}  // namespace decant::ranged_prompt
