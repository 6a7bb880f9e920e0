#pragma once

#include "ops/cuda/split_compute.cuh"
#include "ops/cuda/split_partial.cuh"
#include "ops/cuda/split_shared.cuh"

namespace decant {

/// Warps of a block that merge: those that do nothing else, then the computing ones.
inline constexpr int kMergeRanks = kMergeWarps + kComputeWarps;
/// Partials that a warp waits for at once.
inline constexpr int kMergeBatch = 8;
/// Nanoseconds between looks for partials while several are missing; others use the memory.
inline constexpr unsigned kMergePause = 300;

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

  __device__ void Run() {
    for (int32_t base = 0; base < partials_; base += kMergeBatch) {
      here_ = min(kMergeBatch, partials_ - base);
      batch_ = first_ + static_cast<int64_t>(base) * kStride;
      Wait();
#pragma unroll
      for (int i = 0; i < kMergeBatch; ++i) {
        if (i < here_) Add(i);
      }
      Reset();
    }
    StoreAttended<T, kHeadDim>(args_, row_head_, fragment_ / kDimTiles, fragment_ % kDimTiles, out_,
                               heads_);
  }

 private:
  static constexpr int kDimTiles = kHeadDim / 16;
  static constexpr int32_t kFragments = SplitFragments(kHeadDim, kHeadTiles);
  static constexpr int64_t kStride = int64_t{kFragments} * kSplitFragmentVectors;

  __device__ const float4* SumsAt(int32_t i) const { return batch_ + i * kStride + 32 + lane_ % 4; }

  /// Reads what is there of the batch until all is. A lane reads its own numbers of every partial,
  /// and the maxima and sums of its two heads of partial lane / 4.
  __device__ void Wait() {
    const bool has_sums = has_heads_ && lane_ / 4 < here_;
    sums_ = make_uint4(kNotWritten, kNotWritten, kNotWritten, kNotWritten);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) numbers_[i] = sums_;
    for (;;) {
      if (has_sums && !IsWritten(sums_)) sums_ = LoadPartial(SumsAt(lane_ / 4));
      const unsigned there = __ballot_sync(kAllLanes, !has_sums || IsWritten(sums_));
      // Bit 4 i: all lanes' sums of partial i are there.
      const unsigned whole = there & there >> 1 & there >> 2 & there >> 3 & 0x11111111U;
      const int missing = kMergeBatch - __popc(whole);
      bool all = missing == 0;
#pragma unroll
      for (int i = 0; i < kMergeBatch; ++i) {
        if (!has_heads_ || i >= here_ || IsWritten(numbers_[i])) continue;
        // The last one that is missing is read with its sums: it comes soon, and then it counts.
        if ((whole >> 4 * i & 1) != 0 || missing == 1) {
          numbers_[i] = LoadPartial(batch_ + i * kStride + lane_);
        }
        all = all && IsWritten(numbers_[i]);
      }
      if (__all_sync(kAllLanes, all)) return;
      if (missing > 1) __nanosleep(kMergePause);
    }
  }

  __device__ void Add(int i) {
    const int source = 4 * i + lane_ % 4;
    const float max[2] = {__uint_as_float(__shfl_sync(kAllLanes, sums_.x, source)),
                          __uint_as_float(__shfl_sync(kAllLanes, sums_.z, source))};
    const float sum[2] = {__uint_as_float(__shfl_sync(kAllLanes, sums_.y, source)),
                          __uint_as_float(__shfl_sync(kAllLanes, sums_.w, source))};
    const uint32_t numbers[4] = {numbers_[i].x, numbers_[i].y, numbers_[i].z, numbers_[i].w};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float largest = fmaxf(heads_.max[j], max[j]);
      const float before = PowerOfTwo(heads_.max[j] - largest);
      const float factor = PowerOfTwo(max[j] - largest);
      heads_.max[j] = largest;
      heads_.sum[j] = heads_.sum[j] * before + sum[j] * factor;
#pragma unroll
      for (int k = j; k < 4; k += 2) {
        out_[k] = out_[k] * before + __uint_as_float(numbers[k]) * factor;
      }
    }
  }

  __device__ void Reset() {
    if (!has_heads_) return;
    const uint4 nothing = make_uint4(kNotWritten, kNotWritten, kNotWritten, kNotWritten);
#pragma unroll
    for (int i = 0; i < kMergeBatch; ++i) {
      if (i < here_) StorePartial(const_cast<float4*>(batch_) + i * kStride + lane_, nothing);
    }
    if (lane_ / 4 < here_) StorePartial(const_cast<float4*>(SumsAt(lane_ / 4)), nothing);
  }

  const SplitArgs& args_;
  const int32_t lane_ = threadIdx.x % 32;
  const int32_t row_head_;
  const int32_t partials_;
  const int32_t fragment_;
  const bool has_heads_;
  const float4* const first_;
  const float4* batch_ = nullptr;
  int32_t here_ = 0;
  uint4 sums_;
  uint4 numbers_[kMergeBatch];
  HeadPair heads_{.max = {-1e30F, -1e30F}, .sum = {0, 0}};
  float out_[4] = {};
};

/// Merges the fragments that fall to a warp: they are dealt out over the grid, then over the
/// block's warps. What other blocks compute is waited for, so all blocks must be resident.
template <typename T, int kHeadDim, int kHeadTiles>
__device__ void MergePartials(const SplitArgs& args, int32_t rank) {
  constexpr int32_t kFragments = SplitFragments(kHeadDim, kHeadTiles);
  const int32_t units = __ldcg(args.work.counts + 1) * kFragments;
  for (int32_t unit = blockIdx.x + gridDim.x * rank; unit < units;
       unit += gridDim.x * kMergeRanks) {
    const int4 merge = __ldcg(args.work.merges + unit / kFragments);
    FragmentMerge<T, kHeadDim, kHeadTiles>(args, merge, unit % kFragments).Run();
  }
}

}  // namespace decant
