#pragma once

#include <cstdint>

namespace decant {

/// Clusters of blocks (PTX ISA, "barrier.cluster", "mapa", "st.async"; compute capability 9.0).

__device__ inline uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The cluster's place among all of a grid.
__device__ inline uint32_t ClusterIndex() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return index;
}

/// Every thread of the cluster that has not ended arrives, then waits. What was written to shared
/// memory before arriving is seen after waiting.
__device__ inline void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// The same for what FenceBarrierInit has made visible, and nothing else.
__device__ inline void ArriveAtClusterRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ inline void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ inline void SyncCluster() {
  ArriveAtCluster();
  WaitForCluster();
}

/// Shared memory address `shared` as block `rank` of the cluster has it.
__device__ inline uint32_t AddressIn(uint32_t rank, uint32_t shared) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared), "r"(rank));
  return remote;
}

/// Sends 16 bytes to shared memory of a block of the cluster; `barrier` of that block counts them.
/// Both addresses are those of AddressIn.
__device__ inline void SendAsync(uint32_t remote, float4 value, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(remote),
      "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)),
      "r"(__float_as_uint(value.w)), "r"(barrier)
      : "memory");
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

}  // namespace decant
