#pragma once

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/ranged_prompt_parts.cuh"

namespace decant::ranged_prompt {

/// Named barriers; 0 is __syncthreads.
inline constexpr int kTurnBarrier = 1;  ///< + part: it is that part's turn at the matrix units
inline constexpr int kPartBarrier = 3;  ///< + part: among the part's own threads
inline constexpr int kMergeBarrier = 5;

/// What a thread knows of its two rows, r and r + 8, of the 64 of a part while a range is summed:
/// the maximum, and its share of the sum of exponentials.
struct RangeRows {
  float max[2];
  float sum[2];

  __device__ void Clear() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      max[r] = -INFINITY;
      sum[r] = 0;
    }
  }

  /// Takes in a larger maximum of row r; what exponents are counted from goes to `offset`. Returns
  /// what earlier sums must be multiplied by.
  __device__ float Raise(int r, float new_max, float& offset) {
    new_max = fmaxf(max[r], new_max);
    offset = new_max == -INFINITY ? 0 : new_max;  // of nothing, so that no NaN comes of it
    const float factor = Exp2(max[r] - offset);
    max[r] = new_max;
    return factor;
  }
};

/// Two rows of a finished range, or of the total of several.
struct TwoRows {
  RowScale row[2];
};

/// The sum over the four lanes that share a row.
__device__ inline float RowSum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

/// Scores of keys beyond what a row sees become -inf. Score i of a thread is that of key
/// `key` + i / 4 * 8 + lane % 4 * 2 + i % 2 and row i / 2 % 2.
template <int kScores>
__device__ inline void Mask(float (&scores)[kScores], int32_t key, const int32_t (&last_key)[2]) {
  const int32_t first = key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    if (first + i / 4 * 8 + i % 2 > last_key[i / 2 % 2]) scores[i] = -INFINITY;
  }
}

/// The largest score of row r.
template <int kScores>
__device__ inline float RowMax(const float (&scores)[kScores], int r) {
  float max = fmaxf(scores[2 * r], scores[2 * r + 1]);
#pragma unroll
  for (int i = 4; i < kScores; i += 4) {
    max = fmaxf(max, fmaxf(scores[i + 2 * r], scores[i + 2 * r + 1]));
  }
  max = fmaxf(max, __shfl_xor_sync(0xffffffffU, max, 1));
  return fmaxf(max, __shfl_xor_sync(0xffffffffU, max, 2));
}

/// Row r's scores become exponentials; returns this thread's share of their sum.
template <int kScores>
__device__ inline float Exponentials(float (&scores)[kScores], int r, float scale_log2,
                                     float offset) {
  float even = 0;
  float odd = 0;
#pragma unroll
  for (int i = 0; i < kScores; i += 4) {
    float& low = scores[i + 2 * r];
    float& high = scores[i + 2 * r + 1];
    low = Exp2(__fmaf_rn(low, scale_log2, -offset));
    high = Exp2(__fmaf_rn(high, scale_log2, -offset));
    even += low;
    odd += high;
  }
  return even + odd;
}

template <typename T>
__device__ inline uint32_t PackPair(float low, float high) {
  const auto pair = Element<T>::FromFloat2(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// sums[i] is of row i / 2 % 2.
template <int kSums>
__device__ inline void ScaleRows(float (&sums)[kSums], const float (&factors)[2]) {
  // Times 1 changes nothing.
  if (!__any_sync(0xffffffffU, factors[0] != 1 || factors[1] != 1)) return;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] *= factors[i / 2 % 2];
}

/// A range's finished sums are taken into the total of the ranges before, whose rows are `total`
/// and whose values lie in `stored` (every kPartThreads-th is this thread's); the first range is
/// the total.
template <int kSums>
__device__ inline void TakeRange(float (&sums)[kSums], const TwoRows& range, bool first_range,
                                 const float4* stored, TwoRows& total) {
#pragma unroll
  for (float& sum : sums) sum = Untagged(sum);
  if (first_range) {
    total = range;
    return;
  }
  const MergeFactors low = MergeScale(total.row[0], range.row[0]);
  const MergeFactors high = MergeScale(total.row[1], range.row[1]);
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    const float4 before = stored[i / 4 * kPartThreads];
    sums[i] = MergeValue(before.x, sums[i], low);
    sums[i + 1] = MergeValue(before.y, sums[i + 1], low);
    sums[i + 2] = MergeValue(before.z, sums[i + 2], high);
    sums[i + 3] = MergeValue(before.w, sums[i + 3], high);
  }
}

template <int kSums>
__device__ inline void StoreTotal(const float (&sums)[kSums], float4* stored) {
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    stored[i / 4 * kPartThreads] = make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
  }
}

/// Writes the result of up to 64 packed rows from first_row on, of which `rows` are there.
template <typename T, int kHeadDim, int kSums>
__device__ inline void WriteResult(const Args& args, const PromptItem& item, int32_t first_row,
                                   int rows, const float (&sums)[kSums], const TwoRows& total) {
  const int thread = threadIdx.x % kPartThreads;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * r;
    if (row >= rows) continue;
    const float inverse = 1.0F / total.row[r].sum;
    T* to = static_cast<T*>(args.attended) +
            HeadAt<kHeadDim>(args, item.token_start, item.kv_head, first_row + row) +
            thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      *reinterpret_cast<uint32_t*>(to + i * 2) =
          PackPair<T>(sums[i + 2 * r] * inverse, sums[i + 2 * r + 1] * inverse);
    }
  }
}

/// Stores a range's sums for the merge; rows past the tile's last included:
/// every word of a slot in use has the tag of the last launch.
template <int kHeadDim, int kSums>
__device__ inline void WritePartial(const Args& args, int64_t slot, const float (&sums)[kSums],
                                    const TwoRows& range, uint32_t tag) {
  const int thread = threadIdx.x % kPartThreads;
  float4* scales = args.partials + slot * SlotPieces(kHeadDim);
  float4* to = scales + kScalePieces + thread;
#pragma unroll
  for (int i = 0; i < kSums; i += 4) {
    StoreRelaxed(to + i / 4 * kPartThreads,
                 make_uint4(Tagged(sums[i], tag), Tagged(sums[i + 1], tag),
                            Tagged(sums[i + 2], tag), Tagged(sums[i + 3], tag)));
  }
  if (thread % 4 == 0) {
    StoreRelaxed(scales + thread / 4,
                 make_uint4(Tagged(range.row[0].max, tag), Tagged(range.row[0].sum, tag),
                            Tagged(range.row[1].max, tag), Tagged(range.row[1].sum, tag)));
  }
}

/// Waits for an item's other ranges and takes them into `total` and sums.
template <int kHeadDim, int kSums>
__device__ inline void TakeAwaited(const Args& args, const PromptItem& item, int part,
                                   float (&sums)[kSums], TwoRows& total, uint32_t tag) {
  const int thread = threadIdx.x % kPartThreads;
  const int parts = item.rows > kPartRows ? 2 : 1;
  for (int range = 0; range < item.awaited; ++range) {
    const float4* slot =
        args.partials + (int64_t{item.slot} + range * parts + part) * SlotPieces(kHeadDim);
    const float4* from = slot + kScalePieces + thread;
    // What is written last, until it is there; then all, again if not all was there.
    const float4* watched = from + (kSums / 4 - 1) * kPartThreads;
    while (__any_sync(0xffffffffU, Stale(LoadRelaxed(watched), tag))) __nanosleep(20);
    uint4 scale;
    uint4 more[kSums / 4];
    uint32_t stale;
    do {
      scale = LoadRelaxed(slot + thread / 4);
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) more[i] = LoadRelaxed(from + i * kPartThreads);
      stale = Stale(scale, tag);
#pragma unroll
      for (int i = 0; i < kSums / 4; ++i) stale |= Stale(more[i], tag);
    } while (__any_sync(0xffffffffU, stale));
    const MergeFactors low = MergeScale(total.row[0], {Untagged(scale.x), Untagged(scale.y)});
    const MergeFactors high = MergeScale(total.row[1], {Untagged(scale.z), Untagged(scale.w)});
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      sums[i] = MergeValue(sums[i], Untagged(more[i / 4].x), low);
      sums[i + 1] = MergeValue(sums[i + 1], Untagged(more[i / 4].y), low);
      sums[i + 2] = MergeValue(sums[i + 2], Untagged(more[i / 4].z), high);
      sums[i + 3] = MergeValue(sums[i + 3], Untagged(more[i / 4].w), high);
    }
  }
}

}  // namespace decant::ranged_prompt
