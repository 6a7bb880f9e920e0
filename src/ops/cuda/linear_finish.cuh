#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cuda/cache_layout.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/largest_logit.cuh"
#include "ops/cuda/linear_finish.h"

namespace decant {

/// From the sums of products to the outputs. All of it runs after WaitForEarlierKernels, and what
/// other kernels write is read from the L2 cache: a block may have started while those that use the
/// same memory still ran. Each warp finishes its own 16 weight rows of a group's 64. Additions and
/// products are written as single instructions: what a compiler might contract in one tile's kernel
/// and not in another's would make bits depend on the tile.

/// Chunks of 8 tokens that a warp finishes at a time.
inline constexpr int kFinishChunks = 4;
static_assert(kLinearStagingBytes ==
              4 * kFinishChunks * kTurnedFloats * static_cast<int>(sizeof(float)));

/// What a group of warps knows of a token of its tile before the sums are there. Where the residual
/// is written, instead: the four warps' sums of squares.
struct alignas(16) TileToken {
  float scale;       ///< of the norm
  int32_t position;  ///< kQkv
  /// kQkv: where its slot begins in the K or V of KV head 0, in elements; kNoSlot: padding.
  int64_t slot;
};
static_assert(sizeof(TileToken) == kTileTokenBytes);
inline constexpr int64_t kNoSlot = -1;

template <typename T>
inline constexpr float kRoundedScale = RoundedScale(std::is_same_v<T, __half> ? CudaType::kF16
                                                                              : CudaType::kBf16);

/// Waits for the `threads` threads that use barrier `id`.
__device__ inline void SyncThreads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The tokens of the tile that a group of four warps is at.
template <typename T, int kTokens>
class TileTokens {
 public:
  /// `barrier` is the group's; memory: kTokens of them.
  __device__ TileTokens(const LinearArguments& args, int barrier, TileToken* memory)
      : args_(args), barrier_(barrier), memory_(memory) {}

  /// Makes the tile the one that is finished next. All threads of the group call it.
  __device__ void Prepare(int tile) {
    if (tile == prepared_ || args_.result.finish == LinearFinish::kResidual) return;
    if (prepared_ >= 0) SyncThreads(barrier_, kLinearGroupThreads);  // all are done with the last
    const bool locates = args_.result.finish == LinearFinish::kQkv;
    // What is loaded first is on its way while factors are found.
    Place mine[kMine];
    if (locates) LoadPlaces(tile, mine);
    Scales(tile);
    if (locates) Locate(mine);
    SyncThreads(barrier_, kLinearGroupThreads);
    prepared_ = tile;
  }

  __device__ int barrier() const { return barrier_; }
  __device__ TileToken& at(int i) const { return memory_[i]; }

 private:
  /// Tokens whose K and V a thread locates.
  static constexpr int kMine = (kTokens + kLinearGroupThreads - 1) / kLinearGroupThreads;
  struct Place {
    int32_t position;
    int32_t row;  ///< kNoRow: no such token, or padding
  };

  __device__ void LoadPlaces(int tile, Place (&places)[kMine]) const {
    const QkvPlaces& qkv = args_.result.qkv;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int at = threadIdx.x % kLinearGroupThreads + i * kLinearGroupThreads;
      const int token = tile * kTokens + at;
      const bool there = at < kTokens && token < args_.tokens;
      places[i].position = there ? __ldcg(qkv.positions + token) : 0;
      places[i].row = there ? __ldcg(qkv.token_rows + token) : kNoRow;
    }
  }

  /// Looks up where the tile's K and V go.
  __device__ void Locate(const Place (&places)[kMine]) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int at = threadIdx.x % kLinearGroupThreads + i * kLinearGroupThreads;
      if (at >= kTokens) break;
      memory_[at].position = places[i].position;
      memory_[at].slot =
          places[i].row == kNoRow ? kNoSlot : SlotOf(places[i].row, places[i].position);
    }
  }
  __device__ int64_t SlotOf(int32_t row, int32_t position) const {
    const QkvPlaces& qkv = args_.result.qkv;
    const CachePages& cache = qkv.cache;
    const int32_t* table = qkv.block_tables + static_cast<int64_t>(row) * qkv.table_stride;
    const int64_t page = __ldcg(table + position / cache.page_size);
    return page * cache.page_stride + SlotElement(cache.layout, cache.page_size, qkv.shape.head_dim,
                                                  position % cache.page_size);
  }

  /// 1 / root mean square of each token; four threads add a token's parts up, whatever the tile.
  __device__ void Scales(int tile) {
    constexpr int kAtOnce = kLinearGroupThreads / 4;
    constexpr int kRounds = (kTokens + kAtOnce - 1) / kAtOnce;
    // Of each round, on their way together: mostly all of them, for hidden sizes up to 1536.
    constexpr int kLoads = kRounds > 5 ? 2 : kRounds > 2 ? 6 : 8;
    const int first = static_cast<int>(threadIdx.x) % kLinearGroupThreads / 4;
    const int parts = args_.squares == nullptr ? 0 : SquareParts(args_.cols);
    float sums[kRounds] = {};
#pragma unroll 1
    for (int part = threadIdx.x % 4; part < parts; part += 4 * kLoads) {
      float loaded[kRounds][kLoads];
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        const int token = tile * kTokens + first + round * kAtOnce;
        const float* squares = args_.squares + static_cast<int64_t>(token) * parts + part;
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          const bool there = token < args_.tokens && part + 4 * i < parts;
          loaded[round][i] = there ? __ldcg(squares + 4 * i) : 0.0F;
        }
      }
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) sums[round] += loaded[round][i];
      }
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      float sum = sums[round];
      sum += __shfl_xor_sync(0xffffffffU, sum, 1);
      sum += __shfl_xor_sync(0xffffffffU, sum, 2);
      const float mean = __fmaf_rn(sum, args_.one_over_cols, args_.epsilon);
      const float scale = __fmul_rn(rsqrtf(mean), 1 / kRoundedScale<T>);
      const int at = first + round * kAtOnce;
      if (threadIdx.x % 4 == 0 && at < kTokens) {
        memory_[at].scale = args_.squares == nullptr ? 1.0F : scale;
      }
    }
  }

  const LinearArguments& args_;
  const int barrier_;
  TileToken* const memory_;
  int prepared_ = -1;
};

inline constexpr float kLog2E = 1.44269504F;

__device__ inline float Exp2(float x) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}
__device__ inline float Reciprocal(float x) {
  float value;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
}

/// SiLU(gate * scale) * up * scale.
__device__ inline float SiluMul(float gate, float up, float scale) {
  gate = __fmul_rn(gate, scale);
  const float silu = __fmul_rn(gate, Reciprocal(__fadd_rn(1, Exp2(__fmul_rn(gate, -kLog2E)))));
  return __fmul_rn(silu, __fmul_rn(up, scale));
}

/// Where a dim of a head lies in a slot: in the tiled layout its piece of 8 dims depends on the
/// slot.
struct HeadDim {
  int32_t element = 0;  ///< in slots whose piece is the first one
  int32_t piece = 0;
  int32_t mask = 0;

  /// Pages are of a multiple of 16 slots.
  __device__ int32_t At(int32_t position) const {
    return element + (piece ^ (position & mask)) * 8;
  }
};

/// Finishes 64 rows of a packed weight. Sums of 8 tokens come as four of each thread of a group, as
/// GroupProduct leaves them: row lane / 4 of the warp's 16 rows at tokens 2 (lane % 4) and the
/// next, then row + 8 at the same tokens. They are turned in shared memory, after which a lane has
/// token lane % 8 and rows 4 (lane / 8) to 4 (lane / 8) + 3.
///
/// What becomes of them is a constant here: with a branch for each chunk, a warp waited for one
/// chunk after another.
template <typename T, int kTokens, LinearFinish kFinish>
class LinearFinisher {
 public:
  /// turned: kLinearStagingBytes of shared memory, the group's.
  __device__ LinearFinisher(const LinearArguments& args, const TileTokens<T, kTokens>& tokens,
                            int first_row, int first_token, float* turned)
      : args_(args),
        result_(args.result),
        tokens_(tokens),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32 % 4),
        first_row_(first_row),
        row_(first_row + warp_ * 16 + lane_ / 8 * 4),
        first_token_(first_token),
        tokens_here_(min(kTokens, args.tokens - first_token)),
        turned_(turned + warp_ * kFinishChunks * kTurnedFloats) {
    const int64_t token = first_token;
    if constexpr (kFinish == LinearFinish::kQkv) {
      PlaceHead(token);
    } else if constexpr (kFinish == LinearFinish::kSiluMul) {
      elements_ = static_cast<T*>(result_.output) + token * (args.rows / 2) +
                  PackedRowSource(args.pair_distance, row_);
    } else if constexpr (kFinish == LinearFinish::kArgmax) {
      parts_ = ArgmaxParts(args.rows);
      largest_ = static_cast<ArgmaxPart*>(result_.output) + token * parts_ +
                 first_row_ / kArgmaxRows + warp_;
    } else {
      const int column =
          kFinish == LinearFinish::kFloat ? PackedRowSource(args.pair_distance, row_) : row_;
      floats_ = static_cast<float*>(result_.output) + token * args.rows + column;
      if constexpr (kFinish == LinearFinish::kResidual) {
        elements_ = static_cast<T*>(result_.form.rounded) + token * args.rows + column;
      }
    }
  }

  /// What is added to the sums of the tile's chunk of 8 tokens or turns them. Chunks beyond the
  /// last one may be asked for too.
  __device__ float4 BesideOf(int chunk) const {
    const int local = chunk * 8 + lane_ % 8;
    const float* from = nullptr;
    bool loads = Here(local);
    if constexpr (kFinish == LinearFinish::kResidual) {
      from = floats_ + local * args_.rows;
    } else if constexpr (kFinish == LinearFinish::kQkv) {
      loads = loads && rotates_;
      from = result_.qkv.rotations +
             static_cast<int64_t>(TokenOf(local).position) * result_.qkv.shape.head_dim + dim_ * 2;
    } else {
      loads = false;
    }
    return loads ? __ldcg(reinterpret_cast<const float4*>(from)) : make_float4(0, 0, 0, 0);
  }

  /// Finishes `count` chunks: chunk i has the 8 tokens from 8 (first + i * stride) of the tile on.
  /// stage(i, beside) calls Stage for chunks i to i + kFinishChunks - 1, as far as there are so
  /// many, and gives what BesideOf has of them. All threads of the group call it.
  template <typename StageChunks>
  __device__ void Finish(int first, int stride, int count, StageChunks&& stage) const {
#pragma unroll 1
    for (int begin = 0; begin < count; begin += kFinishChunks) {
      const int local = (first + begin * stride) * 8 + lane_ % 8;
      float4 beside[kFinishChunks];
      stage(begin, beside);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kFinishChunks; ++i) {
        const float4 sums = *reinterpret_cast<const float4*>(turned_ + i * kTurnedFloats +
                                                             TurnedPlace(lane_ % 8, lane_ / 8 * 4));
        FinishFour(local + i * stride * 8, sums, beside[i]);
      }
      __syncwarp();
    }
    if constexpr (kFinish == LinearFinish::kResidual) WriteSquares(first, stride, count);
  }

  /// For Finish: the calling thread's sums of a chunk, `place`th of those staged together.
  __device__ void Stage(int place, float4 sums) const {
    float* chunk = turned_ + place * kTurnedFloats;
    const int token = lane_ % 4 * 2;
    const int row = lane_ / 4;
    chunk[TurnedPlace(token, row)] = sums.x;
    chunk[TurnedPlace(token + 1, row)] = sums.y;
    chunk[TurnedPlace(token, row + 8)] = sums.z;
    chunk[TurnedPlace(token + 1, row + 8)] = sums.w;
  }

 private:
  using Pair = typename Element<T>::Pair;

  /// kQkv: which head the lane's rows are of, and where they go.
  __device__ void PlaceHead(int64_t first_token) {
    const QkvPlaces& qkv = result_.qkv;
    const AttentionShape& shape = qkv.shape;
    const CachePages& cache = qkv.cache;
    const int head = row_ / shape.head_dim;
    const int kv_head = head - shape.heads;
    const int half = shape.head_dim / 2;
    dim_ = PackedRowSource(half, row_) - head * shape.head_dim;
    is_query_ = kv_head < 0;
    rotates_ = kv_head < shape.kv_heads;
    if (is_query_) {
      elements_ = static_cast<T*>(result_.output) + first_token * shape.heads * shape.head_dim +
                  head * shape.head_dim;
    } else {
      elements_ = static_cast<T*>(rotates_ ? cache.k : cache.v) +
                  (rotates_ ? kv_head : kv_head - shape.kv_heads) * cache.head_stride;
    }
    const auto place = [&](int dim) -> HeadDim {
      if (is_query_ || cache.layout == CacheLayout::kPlain) return {dim, 0, 0};
      const int piece = dim % kTiledDims / 8;
      return {DimElement(cache.layout, cache.page_size, piece, dim), piece, 7};
    };
    first_ = place(dim_);
    partner_ = place(dim_ + half);
    if (qkv.bias != nullptr && row_ < args_.rows) {
      const float* bias = qkv.bias + head * shape.head_dim + dim_;
      const float2 first = *reinterpret_cast<const float2*>(bias);
      const float2 partners = *reinterpret_cast<const float2*>(bias + half);
      bias_ = make_float4(first.x, first.y, partners.x, partners.y);
    }
  }

  /// Chunks beyond the last one may be asked for too.
  __device__ bool Here(int local) const { return local < tokens_here_ && row_ < args_.rows; }
  __device__ const TileToken& TokenOf(int local) const {
    return tokens_.at(min(local, kTokens - 1));
  }

  // No branches but those around stores: chunks that are finished together are not waited for one
  // after another. What does not depend on the chunk stands in the constructor.
  __device__ void FinishFour(int local, float4 sums, float4 beside) const {
    if constexpr (kFinish == LinearFinish::kResidual) {
      AddToResidual(local, sums, beside);
    } else {
      const float scale = TokenOf(local).scale;
      if constexpr (kFinish == LinearFinish::kFloat) WriteFloats(local, sums, scale);
      if constexpr (kFinish == LinearFinish::kQkv) WriteHead(local, sums, scale, beside);
      if constexpr (kFinish == LinearFinish::kSiluMul) WriteSiluMul(local, sums, scale);
      if constexpr (kFinish == LinearFinish::kArgmax) WriteLargest(local, sums, scale);
    }
  }

  /// What kFloat writes and kArgmax compares: the same bits.
  __device__ static float4 Scaled(float4 sums, float scale) {
    return make_float4(__fmul_rn(sums.x, scale), __fmul_rn(sums.y, scale), __fmul_rn(sums.z, scale),
                       __fmul_rn(sums.w, scale));
  }

  __device__ void WriteFloats(int local, float4 sums, float scale) const {
    const float4 values = Scaled(sums, scale);
    if (!Here(local)) return;
    float* out = floats_ + local * args_.rows;
    if (args_.pair_distance != 0) {
      *reinterpret_cast<float2*>(out) = make_float2(values.x, values.y);
      *reinterpret_cast<float2*>(out + args_.pair_distance) = make_float2(values.z, values.w);
    } else if (args_.rows % 4 == 0) {
      *reinterpret_cast<float4*>(out) = values;
    } else {
      out[0] = values.x;
      if (row_ + 1 < args_.rows) out[1] = values.y;
      if (row_ + 2 < args_.rows) out[2] = values.z;
      if (row_ + 3 < args_.rows) out[3] = values.w;
    }
  }

  /// Of the warp's rows, which are one part. All lanes of a warp call it.
  __device__ void WriteLargest(int local, float4 sums, float scale) const {
    const float4 values = Scaled(sums, scale);
    LargestLogit mine{-INFINITY, row_};
    bool undrawable = false;
    const auto take = [&](float value, int row) {
      value = row < args_.rows ? value : -INFINITY;
      undrawable = undrawable || IsUndrawable(value);
      mine.TakeLater(value, row);
    };
    take(values.x, row_);
    take(values.y, row_ + 1);
    take(values.z, row_ + 2);
    take(values.w, row_ + 3);
    mine.TakeFromLane(8);
    mine.TakeFromLane(16);
    // Four lanes have the token's rows.
    const uint32_t lanes = __ballot_sync(0xffffffffU, undrawable) & (0x01010101U << lane_ % 8);
    if (lane_ < 8 && local < tokens_here_) {
      const uint32_t row = static_cast<uint32_t>(mine.token) | (lanes != 0 ? kUndrawable : 0);
      *reinterpret_cast<uint2*>(largest_ + local * parts_) =
          make_uint2(__float_as_uint(mine.logit), row);
    }
  }

  __device__ void WriteSiluMul(int local, float4 sums, float scale) const {
    const Pair values =
        Element<T>::FromFloat2(SiluMul(sums.x, sums.z, scale), SiluMul(sums.y, sums.w, scale));
    if (Here(local)) *reinterpret_cast<Pair*>(elements_ + local * (args_.rows / 2)) = values;
  }

  __device__ void WriteHead(int local, float4 sums, float scale, float4 rotation) const {
    float2 first =
        make_float2(__fmaf_rn(sums.x, scale, bias_.x), __fmaf_rn(sums.y, scale, bias_.y));
    float2 partners =
        make_float2(__fmaf_rn(sums.z, scale, bias_.z), __fmaf_rn(sums.w, scale, bias_.w));
    Rotate(first.x, partners.x, rotation.x, rotation.y);
    Rotate(first.y, partners.y, rotation.z, rotation.w);
    const TileToken& token = TokenOf(local);
    const AttentionShape& shape = result_.qkv.shape;
    T* out = elements_ + (is_query_ ? local * shape.heads * shape.head_dim : token.slot);
    if (!Here(local) || !(is_query_ || token.slot != kNoSlot)) return;
    *reinterpret_cast<Pair*>(out + first_.At(token.position)) =
        Element<T>::FromFloat2(first.x, first.y);
    *reinterpret_cast<Pair*>(out + partner_.At(token.position)) =
        Element<T>::FromFloat2(partners.x, partners.y);
  }

  __device__ void Rotate(float& first, float& partner, float cosine, float sine) const {
    const float turned = __fmaf_rn(first, cosine, -__fmul_rn(partner, sine));
    const float turned_partner = __fmaf_rn(partner, cosine, __fmul_rn(first, sine));
    first = rotates_ ? turned : first;
    partner = rotates_ ? turned_partner : partner;
  }

  /// All lanes of a warp call it.
  __device__ void AddToResidual(int local, float4 sums, float4 old) const {
    const float4 sum = make_float4(__fadd_rn(old.x, sums.x), __fadd_rn(old.y, sums.y),
                                   __fadd_rn(old.z, sums.z), __fadd_rn(old.w, sums.w));
    constexpr float kScale = kRoundedScale<T>;
    const Pair first = Element<T>::FromFloat2(__fmul_rn(sum.x, kScale), __fmul_rn(sum.y, kScale));
    const Pair second = Element<T>::FromFloat2(__fmul_rn(sum.z, kScale), __fmul_rn(sum.w, kScale));
    float squares = __fmul_rn(sum.x, sum.x);
    squares = __fmaf_rn(sum.y, sum.y, squares);
    squares = __fmaf_rn(sum.z, sum.z, squares);
    squares = __fmaf_rn(sum.w, sum.w, squares);
    const bool here = Here(local);
    if (here) {
      const int at = local * args_.rows;
      *reinterpret_cast<float4*>(floats_ + at) = sum;
      *reinterpret_cast<uint2*>(elements_ + at) = make_uint2(
          reinterpret_cast<const uint32_t&>(first), reinterpret_cast<const uint32_t&>(second));
    }
    squares = here ? squares : 0;
    squares += __shfl_xor_sync(0xffffffffU, squares, 8);
    squares += __shfl_xor_sync(0xffffffffU, squares, 16);
    if (lane_ < 8 && local < tokens_here_) {
      reinterpret_cast<float*>(&tokens_.at(local))[warp_] = squares;
    }
  }

  /// Adds up what the warps' rows gave.
  __device__ void WriteSquares(int first, int stride, int count) const {
    SyncThreads(tokens_.barrier(), kLinearGroupThreads);
    for (int i = threadIdx.x % kLinearGroupThreads; i < count * 8; i += kLinearGroupThreads) {
      const int local = (first + i / 8 * stride) * 8 + i % 8;
      if (first_token_ + local >= args_.tokens) break;
      const float4 warps = *reinterpret_cast<const float4*>(&tokens_.at(local));
      result_.form.squares[static_cast<int64_t>(first_token_ + local) * SquareParts(args_.rows) +
                           first_row_ / kSquareColumns] = warps.x + warps.y + warps.z + warps.w;
    }
    SyncThreads(tokens_.barrier(), kLinearGroupThreads);  // before the next tile's are written
  }

  const LinearArguments& args_;
  const ProductResult& result_;
  const TileTokens<T, kTokens>& tokens_;
  const int lane_;
  const int warp_;
  const int first_row_;
  const int row_;  ///< first of the lane's four
  const int first_token_;
  const int tokens_here_;  ///< of the tile's
  float* const turned_;
  float* floats_ = nullptr;  ///< Where the outputs of the tile's first token go,
  T* elements_ = nullptr;    ///< those in the weights' type; for kQkv the head's.
  // kArgmax: where the warp's part of the tile's first token goes, and how many parts a token has.
  ArgmaxPart* largest_ = nullptr;
  int parts_ = 0;
  // kQkv: of the lane's rows.
  bool is_query_ = false;
  bool rotates_ = false;
  int dim_ = 0;
  HeadDim first_;
  HeadDim partner_;
  float4 bias_ = {0, 0, 0, 0};
};

/// Calls call(constant) with `finish` as a constant.
template <typename Call>
__device__ inline void WithFinish(LinearFinish finish, Call&& call) {
  switch (finish) {
    case LinearFinish::kFloat:
      return call(std::integral_constant<LinearFinish, LinearFinish::kFloat>{});
    case LinearFinish::kQkv:
      return call(std::integral_constant<LinearFinish, LinearFinish::kQkv>{});
    case LinearFinish::kResidual:
      return call(std::integral_constant<LinearFinish, LinearFinish::kResidual>{});
    case LinearFinish::kSiluMul:
      return call(std::integral_constant<LinearFinish, LinearFinish::kSiluMul>{});
    case LinearFinish::kArgmax:
      return call(std::integral_constant<LinearFinish, LinearFinish::kArgmax>{});
  }
}

}  // namespace decant
