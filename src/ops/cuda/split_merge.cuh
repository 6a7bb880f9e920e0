#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/cuda/split_compute.cuh"
#include "ops/cuda/split_partial.cuh"
#include "ops/cuda/split_shared.cuh"

namespace decant {

/// Warps of a block that merge: those that do nothing else, then the computing ones.
inline constexpr int kMergeRanks = kMergeWarps + kComputeWarps;
/// Partials that a warp waits for at once.
inline constexpr int kMergeBatch = 16;
/// Nanoseconds between looks for partials while several are missing; others use the memory.
inline constexpr unsigned kMergePause = 50;

/// Adds up one fragment of all partials of a row and KV head in the order of the positions, each as
/// soon as it is there, and puts every word back to "not written" for the next launch.
template <typename T, int kHeadDim, int kHeadTiles>
class FragmentMerge {
 public:
  __device__ FragmentMerge(const SplitArgs& args, const int4& merge, int32_t fragment)
      : args_(args),
        row_head_(merge.x),
        partials_(merge.y),
        fragment_(fragment),
        has_heads_(HasHeads(args, fragment / kDimTiles)),
        first_(args.work.partials +
               (static_cast<int64_t>(merge.z) * kFragments + fragment) * kSplitFragmentVectors) {}

  /// With no partials: does all of it with nothing, and writes nothing.
  __device__ void Run() {
    int32_t base = 0;
    do {
      here_ = min(kMergeBatch, partials_ - base);
      numbers_at_ = first_ + base * kStride + lane_;
      sums_at_ = first_ + (base + lane_ / 4) * kStride + 32 + lane_ % 4;
      Wait();
      Add();
      base += kMergeBatch;
      if (base >= partials_) {
        StoreAttended<T, kHeadDim>(args_, row_head_, fragment_ / kDimTiles, fragment_ % kDimTiles,
                                   out_, heads_, partials_ > 0 ? args_.group : 0);
      }
      Reset();
    } while (base < partials_);
  }

 private:
  static constexpr int kDimTiles = kHeadDim / 16;
  static constexpr int32_t kFragments = SplitFragments(kHeadDim, kHeadTiles);
  static constexpr int64_t kStride = int64_t{kFragments} * kSplitFragmentVectors;

  /// Partials of which a lane reads maxima and sums: lane / 4 and every eighth after it.
  static constexpr int kSumsOfLane = kMergeBatch / 8;

  __device__ float4* NumbersAt(int i) const { return numbers_at_ + i * kStride; }
  __device__ float4* SumsAt(int s) const { return sums_at_ + 8 * s * kStride; }
  __device__ bool HasSums(int s) const { return has_heads_ && lane_ / 4 + 8 * s < here_; }

  /// Whether the lane's numbers of partial i of the batch are still to come.
  __device__ bool Lacks(int i) const { return has_heads_ && i < here_ && !IsWritten(numbers_[i]); }

  /// Reads what is there of the batch until all is. A lane reads its own numbers of every partial,
  /// and the maxima and sums of its two heads of some.
  __device__ void Wait() {
    const uint4 nothing = make_uint4(kNotWritten, kNotWritten, kNotWritten, kNotWritten);
#pragma unroll
    for (int s = 0; s < kSumsOfLane; ++s) sums_[s] = nothing;
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      numbers_[i] = make_uint4(i < here_ ? kNotWritten : 0, 0, 0, 0);
    }
    bool all_at_once = true;
    for (;;) {
      // All reads of a turn are under way together: nothing looks at one before the last is begun.
#pragma unroll
      for (int s = 0; s < kSumsOfLane; ++s) {
        if (HasSums(s) && !IsWritten(sums_[s])) sums_[s] = LoadPartial(SumsAt(s));
      }
      if (all_at_once) {
#pragma unroll
        for (int i = 0; i < kMergeBatch; ++i) {
          if (Lacks(i)) numbers_[i] = LoadPartial(NumbersAt(i));
        }
      }
      int missing = 0;  // sums that no lane has seen yet
#pragma unroll
      for (int s = 0; s < kSumsOfLane; ++s) {
        missing += __popc(__ballot_sync(kAllLanes, HasSums(s) && !IsWritten(sums_[s])));
      }
      bool all = missing == 0;
#pragma unroll
      for (int i = 0; i < kMergeBatch; ++i) all &= !Lacks(i);
      if (__all_sync(kAllLanes, all)) return;
      // With one partial missing, it is read together with its sums: it comes soon, and counts
      // then.
      all_at_once = missing <= 4;
      if (!all_at_once) __nanosleep(kMergePause);
    }
  }

  /// Adds the batch. Maxima are whole powers of two, so that it is exact to change to another.
  __device__ void Add() {
    float factors[kSumsOfLane][2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float largest = heads_.max[j];
#pragma unroll
      for (int s = 0; s < kSumsOfLane; ++s) {
        if (HasSums(s)) largest = fmaxf(largest, Max(s, j));
      }
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
      }
      float sum = 0;
#pragma unroll
      for (int s = 0; s < kSumsOfLane; ++s) {
        factors[s][j] = HasSums(s) ? PowerOfTwo(Max(s, j) - largest) : 0;
        if (HasSums(s)) sum += Sum(s, j) * factors[s][j];
      }
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, offset);
      }
      const float before = PowerOfTwo(heads_.max[j] - largest);
      heads_.max[j] = largest;
      heads_.sum[j] = heads_.sum[j] * before + sum;
      out_[j] *= before;
      out_[j + 2] *= before;
    }
#pragma unroll
    for (int s = 0; s < kSumsOfLane; ++s) {
      if (8 * s >= here_ && here_ > 0) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint4& numbers = numbers_[8 * s + i];  // zeros past the last
        const int source = 4 * i + lane_ % 4;
        const float low = __shfl_sync(kAllLanes, factors[s][0], source);
        const float high = __shfl_sync(kAllLanes, factors[s][1], source);
        out_[0] += __uint_as_float(numbers.x) * low;
        out_[1] += __uint_as_float(numbers.y) * high;
        out_[2] += __uint_as_float(numbers.z) * low;
        out_[3] += __uint_as_float(numbers.w) * high;
      }
    }
  }

  __device__ float Max(int s, int head) const {
    return __uint_as_float(head == 0 ? sums_[s].x : sums_[s].z);
  }
  __device__ float Sum(int s, int head) const {
    return __uint_as_float(head == 0 ? sums_[s].y : sums_[s].w);
  }

  __device__ void Reset() {
    if (!has_heads_) return;
    const uint32_t word = Kept(kNotWritten);
    const uint4 nothing = make_uint4(word, word, word, word);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      if (i < here_) StorePartial(NumbersAt(i), nothing);
    }
#pragma unroll
    for (int s = 0; s < kSumsOfLane; ++s) {
      if (HasSums(s)) StorePartial(SumsAt(s), nothing);
    }
  }

  const SplitArgs& args_;
  const int32_t lane_ = threadIdx.x % 32;
  const int32_t row_head_;
  const int32_t partials_;
  const int32_t fragment_;
  const bool has_heads_;
  float4* const first_;
  float4* numbers_at_ = nullptr;  ///< the lane's, of the batch's first partial
  float4* sums_at_ = nullptr;     ///< likewise
  int32_t here_ = 0;
  uint4 sums_[kSumsOfLane];
  uint4 numbers_[kMergeBatch];
  HeadPair heads_{.max = {-1e30F, -1e30F}, .sum = {0, 0}};
  float out_[4] = {};
};

/// Merges the fragments that fall to a warp: those of the first blocks' merging warps, then of the
/// other blocks', then of computing warps. Blocks without any end with their items, and leave their
/// place to the next kernel's. What other blocks compute is waited for, so all must be resident.
template <typename T, int kHeadDim, int kHeadTiles>
__device__ void MergePartials(const SplitArgs& args, int32_t rank) {
  constexpr int32_t kFragments = SplitFragments(kHeadDim, kHeadTiles);
  const int32_t units = __ldcg(args.work.counts + 1) * kFragments;
  const auto grid = static_cast<int32_t>(gridDim.x);
  int32_t unit = blockIdx.x * kMergeWarps + rank;
  if (rank >= kMergeWarps) {
    unit = grid * kMergeWarps + blockIdx.x * kComputeWarps + rank - kMergeWarps;
  }
  if (unit >= units) return;
  // A merging warp merges nothing first, while there is nothing to wait for: that brings the
  // instructions to the multiprocessor, which takes longer than to run them.
  const int32_t step = grid * kMergeRanks;
  if (rank < kMergeWarps) unit -= step;
#pragma unroll 1
  for (; unit < units; unit += step) {
    int4 merge = make_int4(0, 0, 0, 0);
    if (unit >= 0) {
      if (!args.beside) WaitForEarlierKernels();
      merge = __ldcg(args.work.merges + unit / kFragments);
    }
    FragmentMerge<T, kHeadDim, kHeadTiles>(args, merge, max(unit, 0) % kFragments).Run();
  }
}

}  // namespace decant
