#pragma once

#include "ops/cuda/element.cuh"
#include "ops/cuda/split_partial.cuh"
#include "ops/cuda/split_shared.cuh"

namespace decant {

/// The number, in a register: the compiler computes it once, not anew at every use.
__device__ inline uint32_t Kept(uint32_t number) {
  asm volatile("" : "+r"(number));
  return number;
}

/// 2^exponent of a whole number that is 0 or less, exactly; 0 from 2^-127 on.
__device__ inline float PowerOfTwo(float exponent) {
  // Beside 1.5 * 2^23 a whole number lies in the lowest bits of the sum; 127 is the exponent's
  // bias.
  constexpr float kAlign = 12582912.0F + 127.0F;
  return __int_as_float(__float_as_int(fmaxf(exponent, -127.0F) + kAlign) << 23);
}

__device__ inline float Exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

template <typename T>
__device__ inline uint32_t PackPair(float low, float high) {
  const auto pair = Element<T>::FromFloat2(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// A pair of elements times a power of two.
template <typename T>
__device__ inline uint32_t ScalePair(uint32_t pair, float power) {
  using Pair = typename Element<T>::Pair;
  const Pair scaled =
      __hmul2(*reinterpret_cast<const Pair*>(&pair), Element<T>::FromFloat2(power, power));
  return *reinterpret_cast<const uint32_t*>(&scaled);
}

/// One of the four warps that compute. Of each stage of 64 positions the warp takes 16 for the
/// scores, exchanges its softmax weights with the others, and takes a quarter of the dims for the
/// product with V. So no sums need to be added up between warps.
///
/// Positions (then dims) are the 16 rows of the matrix product, query heads the 8 columns: a lane
/// holds rows lane / 4 and lane / 4 + 8 of columns 2 (lane % 4) and the next.
///
/// Weights are relative to maxima that are rounded up to whole powers of two: to change to another
/// maximum is exact then, in the element type too, and each warp can round its weights before it
/// knows the other warps' maxima. One barrier a stage is enough.
template <typename T, int kHeadDim, int kHeadTiles>
class SplitCompute {
 public:
  using Shared = SplitShared<T, kHeadDim, kHeadTiles>;

  __device__ SplitCompute(const SplitArgs& args, Shared& shared, int32_t warp)
      : args_(args), shared_(shared), warp_(warp) {
    const int32_t half_bytes = args.together * kTokenBytes;
#pragma unroll
    for (int i = 0; i < kComputeWarps; ++i) {
      const int32_t group = 16 * i >> args.together_log2;
      token_offsets_[i] =
          Kept(group * args.group_bytes + (16 * i - group * args.together) * kTokenBytes);
    }
    uint32_t own = token_offsets_[0];
#pragma unroll
    for (int i = 1; i < kComputeWarps; ++i) {
      if (i == warp) own = token_offsets_[i];
    }
    half_bytes_ = Kept(half_bytes);
    key_offset_ = Kept(own + lane_ % 16 * kTokenBytes + ((lane_ / 16 ^ lane_ % 8) << 4));
#pragma unroll
    for (int m = 0; m < kWarpTiles; ++m) {
      const int32_t tile = warp * kWarpTiles + m;
      const int32_t piece = (tile % 4 * 2 + lane_ / 8 % 2) ^ lane_ % 8;
      value_offsets_[m] = Kept(kValueBytes + (lane_ % 8 + lane_ / 16 * 8) * kTokenBytes +
                               (piece << 4) + tile / 4 * half_bytes);
    }
  }

  __device__ void Run() {
    for (;;) {
      WaitAtBarrier(SharedAddress(&shared_.query_full[query_.index]), query_.parity);
      const SplitTask task = shared_.tasks[query_.index];
      if (task.tokens == 0) return;
      if constexpr (kHoldsQueries) {
        LoadQueries();
        ReleaseQueries();
      }
      Clear();
      int32_t left = task.tokens;
#pragma unroll 1
      for (; left >= kSplitStageTokens; left -= kSplitStageTokens) {
        if constexpr (!kHoldsQueries) LoadQueries();
        TakeStage<true>(kSplitStageTokens);
      }
      if (left > 0) {
        if constexpr (!kHoldsQueries) LoadQueries();
        TakeStage<false>(left);
      }
      if constexpr (!kHoldsQueries) ReleaseQueries();
      Finish(task);
    }
  }

 private:
  static constexpr int kDimSteps = kHeadDim / 16;               ///< products of 16 dims
  static constexpr int kWarpTiles = kDimSteps / kComputeWarps;  ///< tiles of 16 dims of this warp
  static constexpr int kValueBytes = SplitStageBytes(kHeadDim) / 2;
  static constexpr int kTokenBytes = kTiledDims * 2;
  /// Whether registers have room for the queries of all stages.
  static constexpr bool kHoldsQueries = kHeadTiles == 1;
  static constexpr float kLowest =
      -1e30F;  ///< A maximum of nothing: finite, so no NaN comes of it.

  /// What a lane knows of columns 2 (lane % 4) and the next.
  struct HeadSums {
    float max[2];
    float sum[4];  ///< of weights; 0 and 1 count
    float out[kWarpTiles][4];
  };

  __device__ void LoadQueries() {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
      // Columns past the group repeat its last head; nobody reads what comes of them.
      const int32_t head = min(n * kSplitHeadTile + lane_ % 8, args_.group - 1);
#pragma unroll
      for (int i = 0; i < kDimSteps / 2; ++i) {
        LoadMatrices(queries_[n][i],
                     SharedAddress(&shared_.queries[query_.index][head][i * 32 + lane_ / 8 * 8]));
      }
    }
  }

  __device__ void ReleaseQueries() {
    __syncwarp();
    ArriveForWarp(SharedAddress(&shared_.query_empty[query_.index]), lane_);
    query_.Advance(kQuerySlots);
  }

  __device__ void Clear() {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
      sums_[n].max[0] = sums_[n].max[1] = kLowest;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums_[n].sum[i] = 0;
#pragma unroll
        for (int m = 0; m < kWarpTiles; ++m) sums_[n].out[m][i] = 0;
      }
    }
  }

  /// Adds a stage, of which `tokens` positions count: 64 if kWhole, else fewer.
  template <bool kWhole>
  __device__ void TakeStage(int32_t tokens) {
    WaitAtBarrier(SharedAddress(&shared_.stage_full[stage_.index]), stage_.parity);
    const uint32_t stage = shared_.Stage(stage_.index);

    float scores[kHeadTiles][4];
    Multiply<kWhole>(stage, tokens - warp_ * 16, scores);
    GiveWeights(scores);
    uint32_t values[kWarpTiles][kComputeWarps][4];
    LoadValues<kWhole>(stage, tokens, values);
    __syncwarp();
    ArriveForWarp(SharedAddress(&shared_.stage_empty[stage_.index]), lane_);
    stage_.Advance(args_.stages);

    asm volatile("bar.sync 1, %0;" ::"n"(kComputeWarps * 32) : "memory");
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) AddValues<kWhole>(n, tokens, values);
    turn_ ^= 1;
  }

  /// scores = scaled products of the warp's 16 positions with the queries; -inf from the
  /// tokens-th position on, whatever lies there.
  template <bool kWhole>
  __device__ void Multiply(uint32_t stage, int32_t tokens, float (&scores)[kHeadTiles][4]) {
    float odd[kHeadTiles][4];
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = odd[n][i] = 0;
    }
    if (kWhole || tokens > 0) {
      const uint32_t keys = stage + key_offset_;
#pragma unroll
      for (int k = 0; k < kDimSteps; ++k) {
        uint32_t a[4];
        LoadMatrices(a, (keys ^ ((k % 4) << 5)) + (k < 4 ? 0 : half_bytes_));
#pragma unroll
        for (int n = 0; n < kHeadTiles; ++n) {
          const uint32_t* b = &queries_[n][k / 2][k % 2 * 2];
          MultiplyAdd<T>(k % 2 == 0 ? scores[n] : odd[n], a, b[0], b[1]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool counts = kWhole || lane_ / 4 + i / 2 * 8 < tokens;
        scores[n][i] = counts ? (scores[n][i] + odd[n][i]) * args_.scale_log2 : -INFINITY;
      }
    }
  }

  /// The warp's dims of V, with zeros from the tokens-th position on: NaN may lie there.
  template <bool kWhole>
  __device__ void LoadValues(uint32_t stage, int32_t tokens,
                             uint32_t (&values)[kWarpTiles][kComputeWarps][4]) const {
#pragma unroll
    for (int i = 0; i < kComputeWarps; ++i) {
      if (!kWhole && tokens <= i * 16) continue;
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) {
        LoadMatricesTransposed(values[m][i], stage + value_offsets_[m] + token_offsets_[i]);
      }
      if (kWhole || tokens >= i * 16 + 16) continue;
      const int32_t left = tokens - i * 16 - lane_ % 4 * 2;
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int32_t here = left - j / 2 * 8;
          values[m][i][j] &= (here > 0 ? 0xffffU : 0) | (here > 1 ? 0xffff0000U : 0);
        }
      }
    }
  }

  /// Puts the warp's weights and maxima where the other warps read them.
  __device__ void GiveWeights(const float (&scores)[kHeadTiles][4]) {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
      float max[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float largest = fmaxf(scores[n][j], scores[n][j + 2]);
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) {
          largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
        }
        max[j] = fmaxf(sums_[n].max[j], ceilf(largest));
      }
      // As the product with V wants them: heads are rows.
      uint2 pairs;
      pairs.x =
          TransposeMatrix(PackPair<T>(Exp2(scores[n][0] - max[0]), Exp2(scores[n][1] - max[1])));
      pairs.y =
          TransposeMatrix(PackPair<T>(Exp2(scores[n][2] - max[0]), Exp2(scores[n][3] - max[1])));
      shared_.weights[turn_][warp_][n][lane_] = pairs;
      if (lane_ < 4) {
        shared_.maxima[turn_][n * kSplitHeadTile + 2 * lane_][warp_] = max[0];
        shared_.maxima[turn_][n * kSplitHeadTile + 2 * lane_ + 1][warp_] = max[1];
      }
    }
  }

  __device__ float4 MaximaOf(int32_t head) const {
    return *reinterpret_cast<const float4*>(shared_.maxima[turn_][head]);
  }
  __device__ static float Largest(const float4& four) {
    return fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
  }

  /// Adds all warps' weights, and their products with the warp's dims of V, to a tile of heads.
  template <bool kWhole>
  __device__ void AddValues(int n, int32_t tokens,
                            const uint32_t (&values)[kWarpTiles][kComputeWarps][4]) {
    HeadSums& sums = sums_[n];
    float factor[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float max = Largest(MaximaOf(n * kSplitHeadTile + lane_ % 4 * 2 + j));
      factor[j] = PowerOfTwo(sums.max[j] - max);
      sums.max[j] = max;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums.sum[i] *= factor[i % 2];
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) sums.out[m][i] *= factor[i % 2];
    }
    const float4 maxima = MaximaOf(n * kSplitHeadTile + lane_ / 4);
    const float largest = Largest(maxima);
    const float powers[kComputeWarps] = {
        PowerOfTwo(maxima.x - largest), PowerOfTwo(maxima.y - largest),
        PowerOfTwo(maxima.z - largest), PowerOfTwo(maxima.w - largest)};
    const uint32_t one = PackPair<T>(1, 1);
    const uint32_t ones[4] = {one, one, one, one};
#pragma unroll
    for (int i = 0; i < kComputeWarps; ++i) {
      if (!kWhole && tokens <= i * 16) continue;
      const uint2 pairs = shared_.weights[turn_][i][n][lane_];
      const uint32_t b0 = ScalePair<T>(pairs.x, powers[i]);
      const uint32_t b1 = ScalePair<T>(pairs.y, powers[i]);
      MultiplyAdd<T>(sums.sum, ones, b0, b1);
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) MultiplyAdd<T>(sums.out[m], values[m][i], b0, b1);
    }
  }

  /// Writes the item's result: the row's output, or a partial for the warps that merge.
  __device__ void Finish(const SplitTask& task) const {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
      const HeadSums& sums = sums_[n];
#pragma unroll
      for (int m = 0; m < kWarpTiles; ++m) {
        const int32_t tile = warp_ * kWarpTiles + m;
        const HeadPair heads{.max = {sums.max[0], sums.max[1]}, .sum = {sums.sum[0], sums.sum[1]}};
        if (task.partial < 0) {
          StoreAttended<T, kHeadDim>(args_, task.row_head, n, tile, sums.out[m], heads,
                                     args_.group);
        } else {
          constexpr int32_t kFragments = SplitFragments(kHeadDim, kHeadTiles);
          const int64_t fragment =
              static_cast<int64_t>(task.partial) * kFragments + n * kDimSteps + tile;
          StoreFragment(args_, fragment, n, sums.out[m], heads);
        }
      }
    }
  }

  const SplitArgs& args_;
  Shared& shared_;
  const int32_t warp_;
  const int32_t lane_ = threadIdx.x % 32;
  // Offsets in a stage, in bytes: of 16 positions from 16 i on; between halves of the dims; of what
  // the lane reads of the warp's keys, and of each of its tiles of V.
  uint32_t token_offsets_[kComputeWarps];
  uint32_t half_bytes_;
  uint32_t key_offset_;
  uint32_t value_offsets_[kWarpTiles];
  uint32_t queries_[kHeadTiles][kDimSteps / 2][4];
  HeadSums sums_[kHeadTiles];
  int turn_ = 0;
  RingPlace stage_;
  RingPlace query_;
};

}  // namespace decant
