#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace decant {

/// Barriers in shared memory that count arrivals and copied bytes ("mbarrier" of the PTX ISA 8.x),
/// and the copies that they wait for. A barrier's phases have parity 0, 1, 0, …; addresses are of
/// the shared window.

__device__ inline void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes the calling thread's InitBarriers visible to copies in the background, and to the other
/// blocks of its cluster.
__device__ inline void FenceBarrierInit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ inline void ArriveAtBarrier(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier)
               : "memory");
}

/// Lanes of a warp that arrive for it. One is enough; compute-sanitizer's racecheck, which does not
/// follow __syncwarp to another lane's arrival, needs them all (CMake: DECANT_RACECHECK).
#ifdef DECANT_RACECHECK
inline constexpr int kArrivingLanes = 32;
#else
inline constexpr int kArrivingLanes = 1;
#endif

/// Arrives for the calling warp, all of whose lanes are done with what the barrier guards: they
/// have met since, at __syncwarp or at an instruction of the whole warp that waits. The barrier
/// counts kArrivingLanes for each warp.
__device__ inline void ArriveForWarp(uint32_t barrier, int lane) {
  if (kArrivingLanes == 32 || lane == 0) ArriveAtBarrier(barrier);
}

/// Whether the phase of this parity is over. May wait a little for it.
__device__ inline bool TryBarrier(uint32_t barrier, uint32_t parity) {
  uint32_t over;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred over;\n"
      "mbarrier.try_wait.parity.shared.b64 over, [%1], %2;\n"
      "selp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  asm volatile(
      "{\n.reg .pred over;\n"
      "mbarrier.test_wait.parity.shared.b64 over, [%1], %2;\n"
      "selp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return over != 0;
}

/// Waits until the phase of this parity is over; what was written before its arrivals, and copied
/// for it, can be read then.
__device__ inline void WaitAtBarrier(uint32_t barrier, uint32_t parity) {
  while (!TryBarrier(barrier, parity)) {
  }
}

/// Has the calling thread arrive once all copies that it began with CopyAsync16 are done.
__device__ inline void ArriveWhenCopied(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// From here on for compute capability 9.0.

/// WaitAtBarrier as a loop that the compiler cannot unroll or merge with others.
__device__ inline void WaitInPlace(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "Again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra Done;\nbra Again;\nDone:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Arrives, and adds `bytes` to what must be copied before the phase is over.
__device__ inline void ExpectBytes(uint32_t barrier, uint32_t bytes) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(
          barrier),
      "r"(bytes)
      : "memory");
}

/// Copies `bytes`, a multiple of 16, to shared memory in the background and counts them at
/// `barrier`. All addresses on 16 bytes.
__device__ inline void CopyBulk(uint32_t shared, const void* global, uint32_t bytes,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier)
      : "memory");
}

/// For CopyBulkWith: what is read once, and leaves the L2 cache first.
__device__ inline uint64_t ReadOncePolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// CopyBulk with a cache policy.
__device__ inline void CopyBulkWith(uint64_t policy, uint32_t shared, const void* global,
                                    uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], "
      "%2, [%3], %4;" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

}  // namespace decant
