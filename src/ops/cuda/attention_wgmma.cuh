#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "ops/cuda/wgmma.cuh"

namespace decant {

/// What attention needs of compute capability 9.0a beside wgmma.cuh (PTX ISA: "bar"), and
/// products whose first operand is in registers too. Operands lie as wgmma.cuh says.

/// Makes what threads wrote to shared memory visible to wgmma.
__device__ inline void FenceSharedForProducts() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Waits at one of the block's 16 barriers for kThreads threads, those of ArriveNamed included. Its
/// number is a constant: racecheck does not follow one that is in a register.
template <int kBarrier, int kThreads>
__device__ inline void SyncNamed() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

template <int kBarrier, int kThreads>
__device__ inline void ArriveNamed() {
  asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

/// Keeps the compiler from moving uses of sums before the wait for the products that make them.
template <int kCount>
__device__ inline void HoldSums(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

/// Products of a warpgroup, sums in registers: thread t holds in sums[4 i + 2 r + j] row
/// 16 (t / 32) + t % 32 / 4 + 8 r, column 8 i + 2 (t % 4) + j.
template <typename T>
struct AttentionProduct;

#define DECANT_SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define DECANT_SUMS_16(i) \
  DECANT_SUMS_4(i), DECANT_SUMS_4(i + 4), DECANT_SUMS_4(i + 8), DECANT_SUMS_4(i + 12)
#define DECANT_SUMS_32 DECANT_SUMS_16(0), DECANT_SUMS_16(16)
#define DECANT_SUMS_64 DECANT_SUMS_32, DECANT_SUMS_16(32), DECANT_SUMS_16(48)
#define DECANT_NAMES_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define DECANT_NAMES_16 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define DECANT_NAMES_32 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define DECANT_NAMES_48 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define DECANT_NAMES_OF_32 DECANT_NAMES_0 "," DECANT_NAMES_16
#define DECANT_NAMES_OF_64 DECANT_NAMES_OF_32 "," DECANT_NAMES_32 "," DECANT_NAMES_48

/// TYPE: the operands' element in PTX. Scores: sums [64, 128] (+)= a [64, 16] b [128, 16]^T, both
/// K-major in shared memory. Values: sums [64, n] (+)= a [64, 16] b [16, n], a in registers as
/// thread t holds sums, in pairs of columns, b MN-major in shared memory. `add` 0: sums begin at 0.
#define DECANT_ATTENTION_PRODUCT(ELEMENT, TYPE)                                                \
  template <>                                                                                  \
  struct AttentionProduct<ELEMENT> {                                                           \
    static __device__ void Scores(float (&sums)[64], uint64_t a, uint64_t b, int add) {        \
      asm volatile(                                                                            \
          "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"                                     \
          "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" DECANT_NAMES_OF_64 \
          "}, %64, %65, add, 1, 1, 0, 0;\n}\n"                                                 \
          : DECANT_SUMS_64                                                                     \
          : "l"(a), "l"(b), "r"(add));                                                         \
    }                                                                                          \
    static __device__ void Values(float (&sums)[64], const uint32_t (&a)[4], uint64_t b,       \
                                  int add) {                                                   \
      asm volatile(                                                                            \
          "{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"                                     \
          "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" DECANT_NAMES_OF_64 \
          "}, {%64,%65,%66,%67}, %68, add, 1, 1, 1;\n}\n"                                      \
          : DECANT_SUMS_64                                                                     \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                     \
    }                                                                                          \
    static __device__ void Values(float (&sums)[32], const uint32_t (&a)[4], uint64_t b,       \
                                  int add) {                                                   \
      asm volatile(                                                                            \
          "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                     \
          "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" DECANT_NAMES_OF_32  \
          "}, {%32,%33,%34,%35}, %36, add, 1, 1, 1;\n}\n"                                      \
          : DECANT_SUMS_32                                                                     \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                     \
    }                                                                                          \
  };

DECANT_ATTENTION_PRODUCT(__half, "f16")
DECANT_ATTENTION_PRODUCT(__nv_bfloat16, "bf16")

#undef DECANT_ATTENTION_PRODUCT
#undef DECANT_NAMES_OF_64
#undef DECANT_NAMES_OF_32
#undef DECANT_NAMES_48
#undef DECANT_NAMES_32
#undef DECANT_NAMES_16
#undef DECANT_NAMES_0
#undef DECANT_SUMS_64
#undef DECANT_SUMS_32
#undef DECANT_SUMS_16
#undef DECANT_SUMS_4

}  // namespace decant
