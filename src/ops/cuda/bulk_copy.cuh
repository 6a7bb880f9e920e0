#pragma once

#include <cuda.h>

#include <cstdint>

namespace decant {

/// Copies by the copy engine of a multiprocessor (PTX ISA, "cp.async.bulk"; compute capability
/// 9.0): one thread asks, a barrier in shared memory counts the bytes that have come.

/// For data that is read once: it leaves the L2 cache first.
__device__ inline uint64_t EvictFirstPolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// For data that other blocks read as well.
__device__ inline uint64_t EvictNormalPolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// `bytes` (a multiple of 16) of consecutive memory.
__device__ inline void BulkCopy(uint32_t shared, const void* global, uint32_t bytes,
                                uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], "
      "%2, [%3], %4;" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
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
