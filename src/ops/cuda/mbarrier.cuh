#pragma once

#include <cstdint>

namespace decant {

/// Barriers in shared memory that count arrivals and bytes (PTX ISA, "mbarrier"; compute capability
/// 9.0). Addresses are those of SharedAddress. A phase ends when all its arrivals and bytes are
/// there; waiting takes the parity of the phase waited for, the first phase's being 0.

__device__ inline void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/// Makes initialised barriers visible to other blocks of the cluster and to bulk copies.
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives, and tells the phase of `bytes` that copies will bring.
__device__ inline void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ inline void ArriveAtBarrier(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives at the barrier at the same address in block `rank` of the cluster.
__device__ inline void ArriveAtBarrierOf(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ inline void WaitBarrier(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "Again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra Done;\nbra Again;\nDone:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace decant
