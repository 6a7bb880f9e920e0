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

/// *out += sums, one addition an element. Without waiting where the hardware can do that.
__device__ inline void AddRows(float4* out, float4 sums) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out), "f"(sums.x),
               "f"(sums.y), "f"(sums.z), "f"(sums.w)
               : "memory");
#else
  const float4 before = *out;
  *out = make_float4(before.x + sums.x, before.y + sums.y, before.z + sums.z, before.w + sums.w);
#endif
}

__device__ inline void AddRow(float* out, float sum) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(out), "f"(sum) : "memory");
#else
  *out += sum;
#endif
}

/// Four consecutive rows of one token.
template <typename T>
__device__ inline void WriteRows(LinearOutput kind, char* out, float4 sums) {
  if (kind == LinearOutput::kElement) {
    const typename Element<T>::Pair pairs[2] = {Element<T>::FromFloat2(sums.x, sums.y),
                                                Element<T>::FromFloat2(sums.z, sums.w)};
    *reinterpret_cast<uint2*>(out) = *reinterpret_cast<const uint2*>(pairs);
  } else if (kind == LinearOutput::kAdd) {
    AddRows(reinterpret_cast<float4*>(out), sums);
  } else {
    *reinterpret_cast<float4*>(out) = sums;
  }
}

/// One row of one token, where rows do not come in fours.
template <typename T>
__device__ inline void WriteRow(LinearOutput kind, char* out, float sum) {
  if (kind == LinearOutput::kElement) {
    *reinterpret_cast<T*>(out) = Element<T>::From(sum);
  } else if (kind == LinearOutput::kAdd) {
    AddRow(reinterpret_cast<float*>(out), sum);
  } else {
    *reinterpret_cast<float*>(out) = sum;
  }
}

/// Where the threads of a group write: each four rows of every eighth token.
template <typename T>
class OutputRows {
 public:
  /// Rows from first_row. The staged chunks that follow each other hold tokens `step` chunks apart.
  __device__ OutputRows(const LinearArguments& args, int first_row, int step)
      : args_(args),
        bytes_(args.kind == LinearOutput::kElement ? sizeof(T) : sizeof(float)),
        row_(first_row + static_cast<int>(threadIdx.x) % kPieces * 4),
        thread_token_(threadIdx.x % kLinearGroupThreads / kPieces),
        step_(step),
        token_bytes_(static_cast<int64_t>(args.rows) * bytes_) {}

  /// Writes `chunks` staged chunks: chunk i holds the tokens from first_token + 8 * step * i. What
  /// stands out of the output is left out. All threads of the group call it; `barrier` is theirs.
  __device__ void Write(uint32_t staging, int first_token, int chunks, int barrier) const {
    SyncThreads(barrier, kLinearGroupThreads);
    if (row_ < args_.rows) {
      const int token = first_token + thread_token_;
      char* out = static_cast<char*>(args_.output) + token * token_bytes_ +
                  static_cast<int64_t>(row_) * bytes_;
      if (args_.rows % 4 == 0) {
#pragma unroll
        for (int i = 0; i < kStagedChunks; ++i) {
          if (i < chunks && token + i * 8 * step_ < args_.tokens) {
            WriteRows<T>(args_.kind, out + i * 8 * step_ * token_bytes_, Staged(staging, i));
          }
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < chunks && token + i * 8 * step_ < args_.tokens; ++i) {
          const float4 sums = Staged(staging, i);
          char* at = out + i * 8 * step_ * token_bytes_;
          WriteRow<T>(args_.kind, at, sums.x);
          if (row_ + 1 < args_.rows) WriteRow<T>(args_.kind, at + bytes_, sums.y);
          if (row_ + 2 < args_.rows) WriteRow<T>(args_.kind, at + 2 * bytes_, sums.z);
          if (row_ + 3 < args_.rows) WriteRow<T>(args_.kind, at + 3 * bytes_, sums.w);
        }
      }
    }
    SyncThreads(barrier, kLinearGroupThreads);
  }

 private:
  static constexpr int kPieces = kLinearBlock / 4;  ///< of a staged token

  __device__ float4 Staged(uint32_t staging, int chunk) const {
    const int swizzle = thread_token_ / 2 % 4 * 8;
    const int row = (static_cast<int>(threadIdx.x) % kPieces * 4) ^ swizzle;
    return LoadShared4(staging + ((chunk * 8 + thread_token_) * kLinearBlock + row) * 4);
  }

  const LinearArguments& args_;
  const int bytes_;
  const int row_;
  const int thread_token_;
  const int step_;
  const int64_t token_bytes_;
};

}  // namespace decant
