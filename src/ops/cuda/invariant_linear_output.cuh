#pragma once

#include <cstdint>

#include "ops/cuda/element.cuh"
#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/tensor_core.cuh"

namespace decant {

/// From the sums of products to the output. Each warp writes its own 16 weight rows of a group's 64,
/// so that no warp waits for another; the code is short, since each launch runs it once and finds
/// none of it in the instruction cache.

/// *out = or += sum.
template <LinearOutput kKind>
__device__ inline void WriteFloat(float* out, float sum) {
  if constexpr (kKind == LinearOutput::kFloat) {
    *out = sum;
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    // Nobody else adds to the element, so there is one order; and nobody waits for the old value.
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(out), "f"(sum) : "memory");
#else
    *out += sum;
#endif
  }
}

/// Where a thread of a group of four warps writes. Its sums of 8 tokens are four, as GroupProduct
/// leaves them: row lane / 4 of the warp's 16 rows at tokens 2 (lane % 4) and the next, then row + 8
/// at the same tokens.
template <typename T>
class OutputRows {
 public:
  /// For 64 rows from first_row. staging: kLinearStagingBytes of shared memory, the group's.
  __device__ OutputRows(const LinearArguments& args, int first_row, uint32_t staging)
      : args_(args),
        warp_row_(first_row + static_cast<int>(threadIdx.x) / 32 % 4 * 16),
        staging_(staging + threadIdx.x / 32 % 4 * kWarpStagingBytes) {}

  /// Writes chunks of 8 tokens, of which the first begins at first_token, each next one `stride`
  /// tokens later. get(i) gives the thread's four sums of chunk i. What stands out of the output is
  /// left out. All threads of a warp call it.
  template <int kChunks, typename Get>
  __device__ void Write(int first_token, int stride, Get&& get) const {
    if (args_.kind == LinearOutput::kElement) {
      WriteElements<kChunks>(first_token, stride, get);
    } else if (args_.kind == LinearOutput::kAdd) {
      WriteFloats<LinearOutput::kAdd, kChunks>(first_token, stride, get);
    } else {
      WriteFloats<LinearOutput::kFloat, kChunks>(first_token, stride, get);
    }
  }

 private:
  static constexpr int kWarpStagingBytes = kLinearStagingBytes / 4;
  static constexpr int kTokenBytes = 16 * sizeof(T);

  /// Straight from registers: eight rows of a token are one sector of memory.
  template <LinearOutput kKind, int kChunks, typename Get>
  __device__ void WriteFloats(int first_token, int stride, Get& get) const {
    const int lane = threadIdx.x % 32;
    const int row = warp_row_ + lane / 4;
    const int token = first_token + lane % 4 * 2;
    const int left = args_.tokens - token;
    const bool here = row < args_.rows;
    const bool here_8 = row + 8 < args_.rows;
    float* out = static_cast<float*>(args_.output) + static_cast<int64_t>(token) * args_.rows + row;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const float4 sums = get(i);
      if (left > i * stride) {
        if (here) WriteFloat<kKind>(out, sums.x);
        if (here_8) WriteFloat<kKind>(out + 8, sums.z);
      }
      if (left > i * stride + 1) {
        if (here) WriteFloat<kKind>(out + args_.rows, sums.y);
        if (here_8) WriteFloat<kKind>(out + args_.rows + 8, sums.w);
      }
      out += static_cast<int64_t>(stride) * args_.rows;
    }
  }

  /// Two chunks at a time are turned in shared memory, where they are rows of 16 elements for 16
  /// tokens; half h of token t at place h ^ (t / 4 % 2), which leaves no bank conflicts.
  template <int kChunks, typename Get>
  __device__ void WriteElements(int first_token, int stride, Get& get) const {
    const int lane = threadIdx.x % 32;
    const uint32_t to = staging_ + Place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    const uint32_t from = staging_ + Place(lane / 2, lane % 2);
    const int token = first_token + lane / 16 * stride + lane / 2 % 8;
    const int row = warp_row_ + lane % 2 * 8;
    T* out = static_cast<T*>(args_.output) + static_cast<int64_t>(token) * args_.rows + row;
#pragma unroll
    for (int i = 0; i < kChunks; i += 2) {
      const float4 low = get(i);
      const float4 high = i + 1 < kChunks ? get(i + 1) : make_float4(0, 0, 0, 0);
      // Two places in turn: what is read was written since the last but one was.
      const uint32_t place = i / 2 % 2 * 16 * kTokenBytes;
      StoreTurned(to + place, low, high);
      __syncwarp();
      const bool real = i + 1 < kChunks || lane < 16;
      if (real && token + i * stride < args_.tokens) WriteEight(out, row, from + place);
      out += 2 * static_cast<int64_t>(stride) * args_.rows;
    }
    __syncwarp();
  }

  /// Eight rows of a token from shared memory.
  __device__ void WriteEight(T* out, int row, uint32_t from) const {
    if (args_.rows % 8 == 0) {
      if (row >= args_.rows) return;
      uint4 eight;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                   : "r"(from)
                   : "memory");
      *reinterpret_cast<uint4*>(out) = eight;
      return;
    }
#pragma unroll 1
    for (int i = 0; i < 8 && row + i < args_.rows; ++i) {
      uint16_t bits;
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(from + 2 * i) : "memory");
      reinterpret_cast<uint16_t*>(out)[i] = bits;
    }
  }

  __device__ static uint32_t Place(int token, int half) {
    return token * kTokenBytes + (half ^ token / 4 % 2) * (kTokenBytes / 2);
  }

  /// Stores what a warp holds of 16 rows and 16 tokens as rows of a token.
  __device__ static void StoreTurned(uint32_t to, float4 low, float4 high) {
    const auto pack = [](float first, float second) {
      const typename Element<T>::Pair pair = Element<T>::FromFloat2(first, second);
      return *reinterpret_cast<const uint32_t*>(&pair);
    };
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(pack(low.x, low.y)), "r"(pack(low.z, low.w)), "r"(pack(high.x, high.y)),
                 "r"(pack(high.z, high.w))
                 : "memory");
#else
    StorePairs(to, {pack(low.x, low.y), pack(low.z, low.w), pack(high.x, high.y),
                    pack(high.z, high.w)});
#endif
  }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
  struct Four {
    uint32_t values[4];
  };

  /// The same without the instruction for it, element by element.
  __device__ static void StorePairs(uint32_t to, const Four& pairs) {
    const int lane = threadIdx.x % 32;
    const uint32_t start = to - Place(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const uint32_t at =
            start + Place(i / 2 * 8 + lane % 4 * 2 + second, i % 2) + lane / 4 * sizeof(T);
        const auto bits = static_cast<uint16_t>(pairs.values[i] >> (16 * second));
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(bits) : "memory");
      }
    }
  }
#endif

  const LinearArguments& args_;
  const int warp_row_;
  const uint32_t staging_;
};

}  // namespace decant
