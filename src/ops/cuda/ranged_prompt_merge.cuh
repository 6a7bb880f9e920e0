#pragma once

#include "ops/cuda/element.cuh"
#include "ops/cuda/ranged_prompt_parts.cuh"

namespace decant::ranged_prompt {

/// Merges the partial sums of tiles that were cut: all consumer warps of the grid share them out in
/// runs of columns (16 rows x 8 dims, four sums a lane), and each fetches all ranges' sums of its
/// run to shared memory at once, again where they were not there yet.
template <typename T, int kHeadDim>
class Merge {
 public:
  /// `shared`: SharedAddress and pointer of the block's memory. `warp`: of the block's consumers.
  __device__ Merge(const Args& args, std::byte* shared, int warp)
      : args_(args), shared_(shared), warp_(warp), lane_(threadIdx.x % 32) {
    const int all = LoadCounts(args).merges * kFragments * kColumns;
    const int warps = static_cast<int>(gridDim.x) * kConsumerWarps;
    const int share = (all + warps - 1) / warps;
    // Runs that do not reach over the end of a fragment's columns.
    run_ = share <= 1          ? 1
           : share <= kColumns ? 1 << (32 - __clz(share - 1))
                               : (share + kColumns - 1) / kColumns * kColumns;
    first_ = (warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * run_;
    end_ = min(all, first_ + run_);
  }

  /// Whether there is anything to merge, for any block.
  __device__ bool Any() const { return end_ > 0; }

  /// Fetches the description of this warp's first run.
  __device__ void Prefetch() {
    if (first_ < end_ && lane_ < 2) {
      Description()[lane_] = __ldcg(
          reinterpret_cast<const int4*>(args_.merges + first_ / kColumns / kFragments) + lane_);
    }
    __syncwarp();
  }

  /// Does this warp's share. The block's shared memory up to the barriers is free by now.
  __device__ void Run(uint32_t tag) {
    for (int next = first_; next < end_;) {
      const int number = next / kColumns / kFragments;
      const PromptMerge merge = number == first_ / kColumns / kFragments
                                    ? *reinterpret_cast<const PromptMerge*>(Description())
                                    : Load(number);
      const int fragment = next / kColumns % kFragments;
      const int column = next % kColumns;
      int columns = min(kColumns - column, end_ - next);
      if (fragment * 16 < merge.rows) {
        columns = min(min(columns, kMostColumns), kPieces / merge.ranges - 1);
        MergeColumns(merge, fragment, column, columns, tag);
      }
      next += columns;
    }
  }

 private:
  static constexpr int kFragments = kPartRows / 16;
  static constexpr int kColumns = kHeadDim / 8;
  static constexpr int kMostColumns = 8;  ///< at once: four registers each
  static constexpr int kPieces = Places<kHeadDim>::kMergePieces;
  static_assert(kPieces / kMostPromptRanges > 1);

  __device__ PromptMerge Load(int number) const {
    const auto* from = reinterpret_cast<const int4*>(args_.merges + number);
    PromptMerge merge;
    auto* to = reinterpret_cast<int4*>(&merge);
    to[0] = __ldcg(from);
    to[1] = __ldcg(from + 1);
    return merge;
  }
  __device__ int4* Description() const {
    return reinterpret_cast<int4*>(shared_ + Places<kHeadDim>::kMergesAt) + warp_ * 2;
  }

  __device__ void MergeColumns(const PromptMerge& merge, int fragment, int column, int columns,
                               uint32_t tag) {
    const float4* slot = args_.partials + int64_t{merge.slot} * SlotPieces(kHeadDim);
    const float4* scales = slot + fragment * 8 + lane_ / 4;
    const float4* sums = slot + kScalePieces + column * kPartThreads + fragment * 32 + lane_;
    const int64_t stride = int64_t{merge.stride} * SlotPieces(kHeadDim);
    // [ranges][columns, then the scales][32 lanes]
    auto* place = reinterpret_cast<uint4*>(shared_ + warp_ * kPieces * 512) + lane_;
    const uint32_t place_address = SharedAddress(place);
    const int pieces = columns + 1;

    for (int range = 0; range < merge.ranges; ++range) {
      const uint32_t to = place_address + range * pieces * 512;
#pragma unroll
      for (int i = 0; i < kMostColumns; ++i) {
        if (i < columns) {
          CopyAsync16(to + i * 512, sums + range * stride + i * kPartThreads, true);
        }
      }
      CopyAsync16(to + columns * 512, scales + range * stride, true);
    }
    float4 values[kMostColumns];
    RowScale total[2];
    while (true) {
      CommitCopies();
      WaitCopies<0>();
      uint32_t stale = 0;
      const auto take = [&](const uint4& bits) {
        stale |= Stale(bits, tag);
        return make_float4(Untagged(bits.x), Untagged(bits.y), Untagged(bits.z), Untagged(bits.w));
      };
      const float4 first = take(place[columns * 32]);
      total[0] = {first.x, first.y};
      total[1] = {first.z, first.w};
#pragma unroll
      for (int i = 0; i < kMostColumns; ++i) {
        if (i < columns) values[i] = take(place[i * 32]);
      }
      for (int range = 1; range < merge.ranges; ++range) {
        const uint4* of_range = place + range * pieces * 32;
        const float4 scale = take(of_range[columns * 32]);
        const MergeFactors low = MergeScale(total[0], {scale.x, scale.y});
        const MergeFactors high = MergeScale(total[1], {scale.z, scale.w});
#pragma unroll
        for (int i = 0; i < kMostColumns; ++i) {
          if (i < columns) {
            const float4 more = take(of_range[i * 32]);
            values[i].x = MergeValue(values[i].x, more.x, low);
            values[i].y = MergeValue(values[i].y, more.y, low);
            values[i].z = MergeValue(values[i].z, more.z, high);
            values[i].w = MergeValue(values[i].w, more.w, high);
          }
        }
      }
      if (!__any_sync(0xffffffffU, stale != 0)) break;
      AwaitRanges(sums + (columns - 1) * kPartThreads, stride, merge.ranges, tag);
      for (int range = 0; range < merge.ranges; ++range) {
        for (int i = 0; i < pieces; ++i) {
          const int piece = range * pieces + i;
          if (Stale(place[piece * 32], tag) == 0) continue;
          CopyAsync16(
              place_address + piece * 512,
              i == columns ? scales + range * stride : sums + range * stride + i * kPartThreads,
              true);
        }
      }
    }
    const int row = fragment * 16 + lane_ / 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + 8 * r >= merge.rows) continue;
      const float inverse = 1.0F / total[r].sum;
      T* to =
          static_cast<T*>(args_.attended) +
          HeadAt<kHeadDim>(args_, merge.token_start, merge.kv_head, merge.first_row + row + 8 * r) +
          column * 8 + lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < kMostColumns; ++i) {
        if (i < columns) {
          *reinterpret_cast<typename Element<T>::Pair*>(to + i * 8) =
              r == 0 ? Element<T>::FromFloat2(values[i].x * inverse, values[i].y * inverse)
                     : Element<T>::FromFloat2(values[i].z * inverse, values[i].w * inverse);
        }
      }
    }
  }

  /// Waits until something that is written late is there of all ranges: a column's sums, each lane
  /// watching one range's.
  __device__ void AwaitRanges(const float4* column, int64_t stride, int ranges,
                              uint32_t tag) const {
    const float4* watched = column + lane_ % ranges * stride;
    while (!__all_sync(0xffffffffU, Stale(LoadRelaxed(watched), tag) == 0)) __nanosleep(20);
  }

  const Args& args_;
  std::byte* shared_;
  int warp_;
  int lane_;
  int run_;
  int first_;
  int end_;
};

}  // namespace decant::ranged_prompt
