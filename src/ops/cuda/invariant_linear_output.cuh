#pragma once

#include <cstdint>

#include "ops/cuda/element.cuh"
#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/tensor_core.cuh"

namespace decant {

/// From the sums of products to the output. A group of four warps brings 32 tokens of its 64 weight
/// rows at a time into shared memory, so that it can write rows of the output in long pieces.
///
/// The staged [32 tokens, 64 rows] fp32: row r of token t at r ^ 8 (t / 2 % 4), which keeps both the
/// writing of sums as products hold them and the reading of rows free of bank conflicts.

inline constexpr int kStagedChunks = 4;  ///< of 8 tokens
static_assert(kLinearStagingBytes == kStagedChunks * 8 * kLinearBlock * 4);

/// Waits for the `threads` threads that use barrier `id`.
__device__ inline void SyncThreads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives at barrier `id` without waiting.
__device__ inline void ArriveThreads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ inline void StoreShared(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

__device__ inline float4 LoadShared4(uint32_t address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

/// One thread's four sums of 8 tokens, as GroupProduct leaves them, into the staged chunk `chunk`.
__device__ inline void StageSums(uint32_t staging, int chunk, float4 sums) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32 % 4;
  const int token = chunk * 8 + lane % 4 * 2;
  const int row = (warp * 16 + lane / 4) ^ (lane % 4 * 8);
  const uint32_t at = staging + (token * kLinearBlock + row) * 4;
  const uint32_t at_8 = staging + (token * kLinearBlock + (row ^ 8)) * 4;
  constexpr int kNextToken = kLinearBlock * 4;
  StoreShared(at, sums.x);
  StoreShared(at + kNextToken, sums.y);
  StoreShared(at_8, sums.z);
  StoreShared(at_8 + kNextToken, sums.w);
}

/// Writes (or adds) four consecutive rows of one token; `count` of them exist.
template <typename T>
__device__ inline void WriteRows(const LinearArguments& args, int token, int row, float4 sums) {
  const int64_t at = static_cast<int64_t>(token) * args.rows + row;
  const float values[4] = {sums.x, sums.y, sums.z, sums.w};
  if (args.rows % 4 != 0) {
    for (int i = 0; i < 4 && row + i < args.rows; ++i) {
      if (args.kind == LinearOutput::kElement) {
        static_cast<T*>(args.output)[at + i] = Element<T>::From(values[i]);
      } else {
        float* out = static_cast<float*>(args.output) + at + i;
        *out = args.kind == LinearOutput::kAdd ? *out + values[i] : values[i];
      }
    }
    return;
  }
  if (args.kind == LinearOutput::kElement) {
    typename Element<T>::Pair pairs[2] = {Element<T>::FromFloat2(sums.x, sums.y),
                                          Element<T>::FromFloat2(sums.z, sums.w)};
    *reinterpret_cast<uint2*>(static_cast<T*>(args.output) + at) =
        *reinterpret_cast<const uint2*>(pairs);
    return;
  }
  auto* out = reinterpret_cast<float4*>(static_cast<float*>(args.output) + at);
  if (args.kind == LinearOutput::kAdd) {
    const float4 before = *out;
    sums = make_float4(before.x + sums.x, before.y + sums.y, before.z + sums.z, before.w + sums.w);
  }
  *out = sums;
}

/// Writes `chunks` staged chunks: chunk i holds the tokens from first_token + 8 * step * i, the rows
/// start at first_row. What stands out of the output is left out. All threads of the group call it;
/// `barrier` is theirs.
template <typename T>
__device__ inline void WriteStaged(uint32_t staging, const LinearArguments& args, int first_row,
                                   int first_token, int chunks, int step, int barrier) {
  constexpr int kPieces = kLinearBlock / 4;
  const int thread = threadIdx.x % kLinearGroupThreads;
  const int row = thread % kPieces * 4;
  SyncThreads(barrier, kLinearGroupThreads);
#pragma unroll
  for (int i = 0; i < kStagedChunks; ++i) {
    const int staged = i * 8 + thread / kPieces;
    const int token = first_token + i * 8 * step + thread / kPieces;
    if (i < chunks && token < args.tokens && first_row + row < args.rows) {
      const int swizzled = row ^ (staged / 2 % 4 * 8);
      WriteRows<T>(args, token, first_row + row,
                   LoadShared4(staging + (staged * kLinearBlock + swizzled) * 4));
    }
  }
  SyncThreads(barrier, kLinearGroupThreads);
}

}  // namespace decant
