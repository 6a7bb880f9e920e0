#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/cuda/async_copy.cuh"

namespace decant {

/// Copies of boxes of a matrix, and to other blocks of a cluster (PTX ISA, "cp.async.bulk.tensor";
/// compute capability 9.0), beside the copies of consecutive memory in async_copy.cuh: one thread
/// asks, a barrier in shared memory counts the bytes that have come.

/// For data that other blocks read as well.
__device__ inline uint64_t EvictNormalPolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// The box of `map` at column x, row y; zeros where it stands out of the matrix.
__device__ inline void BoxCopy(uint32_t shared, const CUtensorMap* map, int x, int y,
                               uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

/// The same to the same address of every block of the cluster whose bit is set in `blocks`; each
/// one's own barrier counts.
__device__ inline void BoxCopyTo(uint16_t blocks, uint32_t shared, const CUtensorMap* map, int x,
                                 int y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes."
      "multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

}  // namespace decant
