#pragma once

#include <cstdint>

#include "ops/cuda/linear_finish.cuh"

namespace decant {

/// Finishes 64 tokens of a tile of LinearMode::kTokenRows, whose sums have tokens as rows
/// (GroupProduct): a warp has 16 tokens, a thread those lane / 4 and lane / 4 + 8 of them, and of
/// each 8 rows of the weight those 2 (lane % 4) and the next. All rows are a multiple of 8. The
/// arithmetic is LinearFinisher's, so bits are the same.
template <typename T, int kTokens, int kSums>
class TokenRowsFinisher {
 public:
  /// turned: kLinearStagingBytes of shared memory, the group's.
  __device__ TokenRowsFinisher(const LinearArguments& args, const TileTokens<T, kTokens>& tokens,
                               int first_row, int first_token, float* turned)
      : args_(args),
        tokens_(tokens),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_row_(first_row),
        first_token_(first_token),
        first_local_(static_cast<int>(threadIdx.x) % kLinearGroupThreads / 32 * kWarpTokens),
        tokens_here_(min(kTokens, args.tokens - first_token)),
        turned_(turned + first_local_ * kTurnedRows) {}

  __device__ void Finish(const float (&sums)[kSums]) const {
    // The warp's tokens do not exist. Where none of the tile do, it is rehearsed.
    if (first_local_ >= tokens_here_ && tokens_here_ > 0) return;
    if (args_.result.finish == LinearFinish::kSiluMul) return WriteSiluMul(sums);
    if constexpr (kChunks * 8 % kArgmaxRows == 0) {
      if (args_.result.finish == LinearFinish::kArgmax) return WriteLargest(sums);
    }
    WriteFloats(sums);
  }

 private:
  using Pair = typename Element<T>::Pair;
  static constexpr int kWarpTokens = 16;
  static constexpr int kChunks = kSums / 4;  ///< of 8 rows
  static constexpr int kTurnedChunks = kTurnedRows / 8;
  static_assert(kLinearStagingBytes ==
                4 * kWarpTokens * kTurnedRows * static_cast<int>(sizeof(float)));

  __device__ float ScaleOf(int local) const { return tokens_.at(min(local, kTokens - 1)).scale; }

  /// Straight from registers: eight rows of a token are one sector of memory.
  __device__ void WriteFloats(const float (&sums)[kSums]) const {
    const int local = first_local_ + lane_ / 4;
    const int row = first_row_ + lane_ % 4 * 2;
    float* const out = static_cast<float*>(args_.result.output) +
                       static_cast<int64_t>(first_token_ + local) * args_.rows + row;
    float* const next_out = out + 8 * static_cast<int64_t>(args_.rows);
    const bool here = local < tokens_here_;
    const bool next_here = local + 8 < tokens_here_;
    const float scale = ScaleOf(local);
    const float next_scale = ScaleOf(local + 8);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const float* from = sums + i * 4;
      const bool is_row = row + i * 8 < args_.rows;
      if (is_row && here) {
        *reinterpret_cast<float2*>(out + i * 8) =
            make_float2(__fmul_rn(from[0], scale), __fmul_rn(from[1], scale));
      }
      if (is_row && next_here) {
        *reinterpret_cast<float2*>(next_out + i * 8) =
            make_float2(__fmul_rn(from[2], next_scale), __fmul_rn(from[3], next_scale));
      }
    }
  }

  /// Turned in shared memory, kTurnedRows rows at a time; then a lane has token lane / 2 and 16
  /// rows, of each four the first two gates and the others their ups. A loop, since what is fetched
  /// once a launch counts: 16 rows give 8 outputs side by side (PackedRowSource).
  __device__ void WriteSiluMul(const float (&sums)[kSums]) const {
    const int local = first_local_ + lane_ / 2;
    const bool here = local < tokens_here_;
    const float scale = ScaleOf(local);
    T* const out = static_cast<T*>(args_.result.output) +
                   static_cast<int64_t>(first_token_ + local) * (args_.rows / 2) + first_row_ / 2 +
                   lane_ % 2 * 8;
#pragma unroll 1
    for (int begin = 0; begin < kChunks; begin += kTurnedChunks) {
      Stage(sums, begin);
      __syncwarp();
      Pair pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(
            turned_ + TokenRowsPlace(lane_ / 2, lane_ % 2 * 16 + i * 4));
        pairs[i] =
            Element<T>::FromFloat2(SiluMul(four.x, four.z, scale), SiluMul(four.y, four.w, scale));
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int chunk = begin + lane_ % 2 * 2 + half;
        if (here && chunk < kChunks && first_row_ + chunk * 8 < args_.rows) {
          *reinterpret_cast<uint2*>(out + begin * 4 + half * 4) =
              make_uint2(reinterpret_cast<const uint32_t&>(pairs[half * 2]),
                         reinterpret_cast<const uint32_t&>(pairs[half * 2 + 1]));
        }
      }
      __syncwarp();
    }
  }

  /// Turned likewise; then a lane has token lane / 2 and the 16 rows of one part. The weight has
  /// whole row blocks (TokenRowsUnit), so a part has all of its rows or none.
  __device__ void WriteLargest(const float (&sums)[kSums]) const {
    static_assert(kTurnedRows == 2 * kArgmaxRows);
    const int local = first_local_ + lane_ / 2;
    const bool here = local < tokens_here_;
    const float scale = ScaleOf(local);
    ArgmaxPart* const out = static_cast<ArgmaxPart*>(args_.result.output) +
                            static_cast<int64_t>(first_token_ + local) * ArgmaxParts(args_.rows) +
                            first_row_ / kArgmaxRows + lane_ % 2;
#pragma unroll 1
    for (int begin = 0; begin < kChunks; begin += kTurnedChunks) {
      Stage(sums, begin);
      __syncwarp();
      LargestLogit largest;  // its token counts from the part's first row on
      bool undrawable = false;
#pragma unroll
      for (int i = 0; i < kArgmaxRows; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(
            turned_ + TokenRowsPlace(lane_ / 2, lane_ % 2 * kArgmaxRows + i));
        LargestLogit of_four{-INFINITY, i};
        const auto take = [&](float sum, int row) {
          const float value = __fmul_rn(sum, scale);
          undrawable = undrawable || IsUndrawable(value);
          of_four.TakeLater(value, row);
        };
        take(four.x, i);
        take(four.y, i + 1);
        take(four.z, i + 2);
        take(four.w, i + 3);
        largest.TakeLater(of_four.logit, of_four.token);
      }
      const int chunk = begin + lane_ % 2 * 2;
      const int row = first_row_ + chunk * 8;
      if (here && chunk < kChunks && row < args_.rows) {
        *reinterpret_cast<uint2*>(out + begin * 8 / kArgmaxRows) =
            make_uint2(__float_as_uint(largest.logit),
                       static_cast<uint32_t>(row + largest.token) | (undrawable ? kUndrawable : 0));
      }
      __syncwarp();
    }
  }

  /// The thread's sums of the chunks from `begin` on.
  __device__ void Stage(const float (&sums)[kSums], int begin) const {
    // A branch for each place, since registers have no addresses.
#pragma unroll
    for (int first = 0; first < kChunks; first += kTurnedChunks) {
      if (first != begin) continue;
#pragma unroll
      for (int i = 0; i < kTurnedChunks && first + i < kChunks; ++i) {
        const float* from = sums + (first + i) * 4;
        auto* const pairs = reinterpret_cast<float2*>(turned_);
        const int place = TokenRowsPlace(lane_ / 4, i * 8 + lane_ % 4 * 2) / 2;
        pairs[place] = make_float2(from[0], from[1]);
        pairs[place + 8 * kTurnedRows / 2] = make_float2(from[2], from[3]);
      }
    }
  }

  const LinearArguments& args_;
  const TileTokens<T, kTokens>& tokens_;
  const int lane_;
  const int first_row_;
  const int first_token_;
  const int first_local_;  ///< first of the warp's tokens
  const int tokens_here_;  ///< of the group's
  float* const turned_;
};

}  // namespace decant
