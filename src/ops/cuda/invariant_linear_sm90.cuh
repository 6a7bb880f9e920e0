#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <utility>

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/bulk_copy.cuh"
#include "ops/cuda/cluster.cuh"
#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/invariant_linear_output.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/wgmma.cuh"

namespace decant {

/// What follows from a tile at compile time.
template <typename T, LinearTile kTileValue>
struct LinearTraits {
  using Type = T;
  static constexpr LinearTile kTile = kTileValue;
  static constexpr int kGroups = kTile.groups;
  static constexpr int kBlocks = kTile.blocks;
  static constexpr int kTokens = kTile.tokens;
  static constexpr int kMulticast = kTile.multicast;
  static constexpr int kRowBlocks = kTile.row_blocks();
  static constexpr int kWeightBytes = kRowBlocks * kLinearBlockBytes;
  static constexpr int kStageBytes = kTile.stage_bytes();
  /// Groups that read one stage.
  static constexpr int kReaders = kTile.ping_pong ? 1 : kGroups;
  static constexpr bool kMovesRegisters = kTile.moves_registers();
  static constexpr int kThreads = LinearThreads(kTile);
  /// 8 tokens of a row block.
  static constexpr int kChunks = kTokens / 8;
  /// Blocks whose registers fit on a multiprocessor together, by an estimate of what a thread
  /// needs.
  static constexpr int kRegisters =
      kTile.sums() * (kTile.mode == LinearMode::kSequential ? 2 : 1) + 40;
  static constexpr int kMinBlocks = kThreads * kRegisters <= 32 * 1024 ? 2 : 1;
  static_assert(kTile.mode != LinearMode::kCluster || (kMulticast == 1 && kBlocks == 1));
};

/// Shared memory: the ring's stages, then where ranges meet (unless in the ring), staging for each
/// group, barriers.
struct LinearShared {
  uint32_t ring;
  uint32_t merge;
  uint32_t staging;
  uint32_t barriers;
  int32_t stages;

  /// A stage's data has come; all have read it; the ranges' sums have come.
  __device__ uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ uint32_t empty(int stage) const { return barriers + 8 * (stages + stage); }
  __device__ uint32_t merged() const { return barriers + 16 * stages; }
};

/// A stage of the ring and the parity of its turn.
struct RingPlace {
  int32_t stage = 0;
  uint32_t parity = 0;

  __device__ void Advance(int32_t stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ void Skip(int32_t count, int32_t stages) {
    stage += count;
    parity ^= stage / stages % 2;
    stage %= stages;
  }
};

template <class Traits>
__device__ inline LinearShared DivideShared(const LinearArguments& args, uint32_t start) {
  constexpr LinearTile kTile = Traits::kTile;  // device code cannot refer to the member
  LinearShared shared;
  shared.stages = args.stages;
  shared.ring = (start + kLinearAlignment - 1) / kLinearAlignment * kLinearAlignment;
  const uint32_t ring_end = shared.ring + args.stages * Traits::kStageBytes;
  shared.merge = args.merges_in_ring ? shared.ring : ring_end;
  shared.staging = ring_end + (args.merges_in_ring ? 0 : LinearMergeBytes(kTile, args.cut.splits));
  shared.barriers = shared.staging + Traits::kGroups * kLinearStagingBytes;
  return shared;
}

template <class Traits>
using WalkOf = LinearWalk<Traits::kTile.mode>;

template <class Traits>
__device__ inline WalkOf<Traits> MakeWalk(const LinearArguments& args) {
  constexpr bool kClusters = Traits::kTile.mode == LinearMode::kCluster || Traits::kMulticast > 1;
  return WalkOf<Traits>(args.cut, kClusters ? ClusterIndex() : static_cast<int>(blockIdx.x),
                        gridDim.x / Traits::kMulticast, kClusters ? ClusterRank() : 0);
}

template <class Traits>
__device__ inline int FirstRowBlock(const WalkOf<Traits>& walk, int rank) {
  return (walk.row_tile() * Traits::kMulticast + rank) * Traits::kRowBlocks;
}

inline constexpr int kFillBytesPerTick = 40;

/// The multiprocessor's clock, which begins again after seconds.
__device__ inline uint32_t Ticks() {
  uint32_t ticks;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(ticks));
  return ticks;
}

/// Fetches the weight's blocks. They do not depend on earlier kernels, so the ring is filled while
/// those still run.
template <class Traits>
__device__ inline void FetchWeights(const LinearArguments& args, const LinearShared& shared,
                                    int rank) {
  const uint64_t policy = args.streams_weight ? ReadOncePolicy() : EvictNormalPolicy();
  const int last_block = (args.rows - 1) / kLinearBlock;
  RingPlace place{.stage = 0, .parity = 1};
  // No faster than twice what memory gives a multiprocessor: the copy engine takes orders in turn,
  // and when the ring is filled at first, the input's must not wait behind all of the weight's.
  constexpr uint32_t kTicksPerStage = Traits::kWeightBytes / kFillBytesPerTick;
  uint32_t last_tick = Ticks();
  for (auto walk = MakeWalk<Traits>(args); walk.valid(); walk.Next()) {
    const int first_block = FirstRowBlock<Traits>(walk, rank);
    const char* source[Traits::kRowBlocks];
#pragma unroll
    for (int i = 0; i < Traits::kRowBlocks; ++i) {
      // A row block past the weight's end is the last one once more; nobody reads its sums.
      const int64_t block = min(first_block + i, last_block);
      source[i] = static_cast<const char*>(args.weight) +
                  (block * args.cut.column_blocks + walk.begin()) * kLinearBlockBytes;
    }
    for (int count = walk.count(); count > 0; --count) {
      const uint32_t full = shared.full(place.stage);
      const uint32_t target = shared.ring + place.stage * Traits::kStageBytes;
      WaitInPlace(shared.empty(place.stage), place.parity);
      // Whatever the clock has done meanwhile, this ends within kTicksPerStage.
      while (Ticks() - last_tick < kTicksPerStage) continue;
      last_tick = Ticks();
      ExpectBytes(full, Traits::kStageBytes);
#pragma unroll
      for (int i = 0; i < Traits::kRowBlocks; ++i) {
        CopyBulkWith(policy, target + i * kLinearBlockBytes, source[i], kLinearBlockBytes, full);
        source[i] += kLinearBlockBytes;
      }
      place.Advance(shared.stages);
    }
  }
}

/// Fetches the input's blocks, each block of a cluster its share for all of them.
template <class Traits>
__device__ inline void FetchInput(const CUtensorMap* input, const LinearArguments& args,
                                  const LinearShared& shared, int rank) {
  constexpr int kShare = Traits::kTokens / Traits::kMulticast;
  constexpr int kCopyTokens = Traits::kTile.copy_tokens();
  constexpr int kRowBytes = kLinearBlock * 2;
  RingPlace place{.stage = 0, .parity = 1};
  for (auto walk = MakeWalk<Traits>(args); walk.valid(); walk.Next()) {
    const int token = walk.token_tile() * Traits::kTokens + rank * kShare;
    for (int block = walk.begin(); block < walk.end(); ++block) {
      const uint32_t target = shared.ring + place.stage * Traits::kStageBytes +
                              Traits::kWeightBytes + rank * kShare * kRowBytes;
      WaitInPlace(shared.empty(place.stage), place.parity);
#pragma unroll
      for (int i = 0; i < kShare; i += kCopyTokens) {
        if constexpr (Traits::kMulticast > 1) {
          BoxCopyTo((1U << Traits::kMulticast) - 1, target + i * kRowBytes, input,
                    block * kLinearBlock, token + i, shared.full(place.stage));
        } else {
          BoxCopy(target + i * kRowBytes, input, block * kLinearBlock, token + i,
                  shared.full(place.stage));
        }
      }
      place.Advance(shared.stages);
    }
  }
}

template <class Traits>
using LinearSums = float[Traits::kBlocks][Traits::kTokens / 2];

template <class Traits>
__device__ inline void ClearSums(LinearSums<Traits>& sums) {
#pragma unroll
  for (int i = 0; i < Traits::kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < Traits::kTokens / 2; ++j) sums[i][j] = 0;
  }
}

/// Keeps the compiler from moving the sums' registers while products run.
template <class Traits>
__device__ inline void PinSums(LinearSums<Traits>& sums) {
#pragma unroll
  for (int i = 0; i < Traits::kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < Traits::kTokens / 2; ++j) asm volatile("" : "+f"(sums[i][j])::"memory");
  }
}

__device__ inline float4 LoadShared4(uint32_t address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

/// Waits for the `threads` threads that use barrier `id`.
__device__ inline void SyncThreads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives at barrier `id` without waiting.
__device__ inline void ArriveThreads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <class Traits>
__device__ inline void ReleaseStage(const LinearShared& shared, int stage) {
  if (threadIdx.x % kLinearGroupThreads != 0) return;
  if constexpr (Traits::kMulticast > 1) {
#pragma unroll
    for (int rank = 0; rank < Traits::kMulticast; ++rank) {
      ArriveAtBarrierOf(shared.empty(stage), rank);
    }
  } else {
    ArriveAtBarrier(shared.empty(stage));
  }
}

/// sums += the products of the next `count` column blocks, in order. `group` is which rows of the
/// tile are the caller's. `issued` is called when the last product has been issued.
template <class Traits, class Issued>
__device__ inline void AddBlocks(LinearSums<Traits>& sums, const LinearShared& shared,
                                 RingPlace& place, int group, int count, Issued&& issued) {
  constexpr int kSteps = kLinearBlock / 16;
  constexpr int kProductTokens = Traits::kTile.product_tokens();
  int previous = 0;
  PinSums<Traits>(sums);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    WaitInPlace(shared.full(place.stage), place.parity);
    const uint32_t stage = shared.ring + place.stage * Traits::kStageBytes;
    const uint64_t weight = DescribeOperand(stage + group * Traits::kBlocks * kLinearBlockBytes);
    const uint64_t input = DescribeOperand(stage + Traits::kWeightBytes);
    FenceProducts();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int block = 0; block < Traits::kBlocks; ++block) {
#pragma unroll
        for (int first = 0; first < Traits::kTokens; first += kProductTokens) {
          GroupProduct<typename Traits::Type, kProductTokens>::Add(
              reinterpret_cast<float(&)[kProductTokens / 2]>(sums[block][first / 2]),
              weight + block * (kLinearBlockBytes >> 4) + step * 2,
              input + first * (kLinearBlock * 2 >> 4) + step * 2);
        }
      }
    }
    CommitProducts();
    WaitProducts<1>();
    if (i > 0) ReleaseStage<Traits>(shared, previous);
    previous = place.stage;
    place.Advance(shared.stages);
  }
  issued();
  WaitProducts<0>();
  PinSums<Traits>(sums);
  ReleaseStage<Traits>(shared, previous);
}

/// A group of four warps that multiply.
struct LinearGroup {
  int index = 0;  ///< of the block's
  int rows = 0;   ///< which rows of the tile are its: index, or 0 where groups take turns
  uint32_t staging = 0;

  __device__ int barrier() const { return 1 + index; }
};

/// Writes a tile's sums from registers.
template <class Traits>
__device__ inline void WriteTile(LinearSums<Traits>& sums, const LinearArguments& args,
                                 const LinearGroup& group, int first_row_block, int first_token) {
#pragma unroll
  for (int block = 0; block < Traits::kBlocks; ++block) {
    const int row = (first_row_block + group.rows * Traits::kBlocks + block) * kLinearBlock;
    if (row >= args.rows) continue;
    const OutputRows<typename Traits::Type> output(args, row, group.staging);
    output.template Write<Traits::kChunks>(first_token, 8, [&](int i) {
      const float* at = sums[block] + i * 4;
      return make_float4(at[0], at[1], at[2], at[3]);
    });
  }
}

/// kSequential: tile after tile, range after range.
template <class Traits>
__device__ inline void ComputeSequential(const LinearArguments& args, const LinearShared& shared,
                                         const LinearGroup& group, int rank) {
  LinearSums<Traits> sums;
  LinearSums<Traits> total;
  RingPlace place;
  for (auto walk = MakeWalk<Traits>(args); walk.valid(); walk.Next()) {
    for (int range = 0; range < args.cut.splits; ++range) {
      ClearSums<Traits>(sums);
      AddBlocks<Traits>(sums, shared, place, group.rows,
                        args.cut.RangeBegin(range + 1) - args.cut.RangeBegin(range), [] {});
#pragma unroll
      for (int i = 0; i < Traits::kBlocks; ++i) {
#pragma unroll
        for (int j = 0; j < Traits::kTokens / 2; ++j) {
          total[i][j] = range == 0 ? sums[i][j] : total[i][j] + sums[i][j];
        }
      }
    }
    WriteTile<Traits>(total, args, group, FirstRowBlock<Traits>(walk, rank),
                      walk.token_tile() * Traits::kTokens);
  }
}

/// kCluster: one range of one tile; each block sends its sums to those that add them up, 8 tokens
/// to one block, the next 8 to the next.
template <class Traits>
__device__ inline void ComputeClustered(const LinearArguments& args, const LinearShared& shared,
                                        const LinearGroup& group) {
  const int splits = args.cut.splits;
  const auto walk = MakeWalk<Traits>(args);
  const int rank = static_cast<int>(ClusterRank());
  const int first_token = walk.token_tile() * Traits::kTokens;
  const int chunks = min(Traits::kChunks, (args.tokens - first_token + 7) / 8);
  const int thread = threadIdx.x % kLinearGroupThreads;
  constexpr int kSumBytes = kLinearGroupThreads * 16;  // 8 tokens of a group's rows, from one block

  LinearSums<Traits> sums;
  RingPlace place;
  ClearSums<Traits>(sums);
  AddBlocks<Traits>(sums, shared, place, group.rows, walk.count(), [] {});

  // The others have started, and where sums meet in the ring, are done with theirs.
  if (args.merges_in_ring) ArriveAtCluster();
  WaitForCluster();
  const uint32_t group_merge =
      shared.merge + group.index * ((Traits::kChunks + splits - 1) / splits) * splits * kSumBytes +
      thread * 16;
  int owner = 0;
  uint32_t at = group_merge + rank * kSumBytes;
#pragma unroll
  for (int chunk = 0; chunk < Traits::kChunks; ++chunk) {
    if (chunk >= chunks) continue;
    const float* from = sums[0] + chunk * 4;
    SendAsync(AddressIn(owner, at), make_float4(from[0], from[1], from[2], from[3]),
              AddressIn(owner, shared.merged()));
    if (++owner == splits) {
      owner = 0;
      at += splits * kSumBytes;
    }
  }

  const int owned = (chunks - rank + splits - 1) / splits;
  if (owned <= 0) return;
  WaitInPlace(shared.merged(), 0);
  const int row = (walk.row_tile() * Traits::kRowBlocks + group.rows) * kLinearBlock;
  if (row >= args.rows) return;
  const OutputRows<typename Traits::Type> output(args, row, group.staging);
#pragma unroll 1
  for (int i = 0; i < owned; ++i) {
    const uint32_t from = group_merge + i * splits * kSumBytes;
    float4 sum = LoadShared4(from);
    for (int range = 1; range < splits; ++range) {
      const float4 next = LoadShared4(from + range * kSumBytes);
      sum = make_float4(sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w);
    }
    output.template Write<1>(first_token + (rank + i * splits) * 8, 0, [&](int) { return sum; });
  }
}

/// What one block of threads hands to the next in a chain.
struct HandOver {
  float4* sums;    ///< of the calling thread, 128 apart
  uint32_t* flag;  ///< of its group
};

template <class Traits>
__device__ inline HandOver HandOverOf(const LinearArguments& args, const LinearGroup& group,
                                      int block) {
  constexpr int kGroupSums = Traits::kBlocks * Traits::kChunks * kLinearGroupThreads;
  const int at = block * Traits::kReaders + group.rows;
  return {.sums = static_cast<float4*>(args.handed_over) + static_cast<int64_t>(at) * kGroupSums +
                  threadIdx.x % kLinearGroupThreads,
          .flag = args.handed_flags + at};
}

/// sums = zero, or where `takes` is set what `from` holds. Loads with a predicate, since after a
/// branch that defines the sums the compiler would let products wait for each other.
template <class Traits>
__device__ inline void BeginSums(LinearSums<Traits>& sums, const HandOver& from, bool takes) {
#pragma unroll
  for (int i = 0; i < Traits::kBlocks * Traits::kChunks; ++i) {
    float* to = sums[i / Traits::kChunks] + i % Traits::kChunks * 4;
    asm volatile(
        "{\n.reg .pred takes;\nsetp.ne.b32 takes, %5, 0;\n"
        "mov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\n"
        "mov.f32 %2, 0f00000000;\nmov.f32 %3, 0f00000000;\n"
        "@takes ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "=&f"(to[0]), "=&f"(to[1]), "=&f"(to[2]), "=&f"(to[3])
        : "l"(from.sums + i * kLinearGroupThreads), "r"(static_cast<int>(takes))
        : "memory");
  }
}

__device__ inline void AwaitHandOver(const HandOver& from, const LinearGroup& group) {
  if (threadIdx.x % kLinearGroupThreads == 0) {
    uint32_t there = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(from.flag) : "memory");
    } while (there == 0);
    *from.flag = 0;  // as the next product wants it
  }
  SyncThreads(group.barrier(), kLinearGroupThreads);
}

template <class Traits>
__device__ inline void GiveSums(const LinearSums<Traits>& sums, const HandOver& to,
                                const LinearGroup& group) {
#pragma unroll
  for (int i = 0; i < Traits::kBlocks * Traits::kChunks; ++i) {
    const float* from = sums[i / Traits::kChunks] + i % Traits::kChunks * 4;
    __stcg(to.sums + i * kLinearGroupThreads, make_float4(from[0], from[1], from[2], from[3]));
  }
  __threadfence();
  SyncThreads(group.barrier(), kLinearGroupThreads);
  if (threadIdx.x % kLinearGroupThreads == 0) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to.flag), "r"(1U) : "memory");
  }
}

/// kChain. Where groups take turns, one group's output is written while the other's products run;
/// a turn ends when its last product has been issued, since waiting for a stage by parity is
/// unambiguous only once the stages before it have been waited for.
template <class Traits>
__device__ inline void ComputeChained(const LinearArguments& args, const LinearShared& shared,
                                      const LinearGroup& group, int rank) {
  constexpr bool kTurns = Traits::kTile.ping_pong;
  constexpr int kTurnBarrier = 1 + Traits::kGroups;
  LinearSums<Traits> sums;
  RingPlace place;
  int turn = 0;
  for (auto walk = MakeWalk<Traits>(args); walk.valid(); walk.Next(), ++turn) {
    if (kTurns && turn % 2 != group.index) {
      place.Skip(walk.count(), shared.stages);
      continue;
    }
    const HandOver from =
        HandOverOf<Traits>(args, group, static_cast<int>(blockIdx.x) - Traits::kMulticast);
    if (walk.continues()) AwaitHandOver(from, group);
    BeginSums<Traits>(sums, from, walk.continues());
    if (kTurns && turn > 0) SyncThreads(kTurnBarrier + group.index, 2 * kLinearGroupThreads);
    AddBlocks<Traits>(sums, shared, place, group.rows, walk.count(), [&] {
      if constexpr (kTurns) {
        auto next = walk;
        next.Next();
        if (next.valid()) ArriveThreads(kTurnBarrier + (group.index ^ 1), 2 * kLinearGroupThreads);
      }
    });
    if (walk.finishes()) {
      WriteTile<Traits>(sums, args, group, FirstRowBlock<Traits>(walk, rank),
                        walk.token_tile() * Traits::kTokens);
    } else {
      GiveSums<Traits>(sums, HandOverOf<Traits>(args, group, blockIdx.x), group);
    }
  }
}

/// By one thread of each warp: an initialisation takes its time, and those of one warp follow each
/// other.
template <class Traits>
__device__ inline void InitBarriers(const LinearArguments& args, const LinearShared& shared) {
  constexpr int kWarps = Traits::kThreads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
  for (int i = warp; i < 2 * shared.stages; i += kWarps) {
    const bool full = i < shared.stages;  // the full barriers, then the empty ones
    InitBarrier(shared.full(0) + 8 * i, full ? 1 : Traits::kReaders * Traits::kMulticast);
  }
  if (Traits::kTile.mode == LinearMode::kCluster && warp == kWarps - 1) {
    const auto walk = MakeWalk<Traits>(args);
    const int rank = static_cast<int>(ClusterRank());
    const int chunks =
        min(Traits::kChunks, (args.tokens - walk.token_tile() * Traits::kTokens + 7) / 8);
    const int owned = max(0, (chunks - rank + args.cut.splits - 1) / args.cut.splits);
    InitBarrier(shared.merged(), 1);
    ExpectBytes(shared.merged(),
                owned * args.cut.splits * Traits::kGroups * kLinearGroupThreads * 16);
  }
  FenceBarrierInit();
}

template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kMinBlocks)
    InvariantLinearKernel(const __grid_constant__ CUtensorMap input, const LinearArguments args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr LinearMode kMode = Traits::kTile.mode;
  constexpr bool kShares = Traits::kMulticast > 1;
  extern __shared__ char memory[];
  const LinearShared shared = DivideShared<Traits>(args, SharedAddress(memory));
  // One value for the warp, and the compiler knows.
  const int warp = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int kCopyWarp = Traits::kGroups * 4;
  if (threadIdx.x % 32 == 0) InitBarriers<Traits>(args, shared);
  __syncthreads();
  // Where sums meet in the ring, blocks arrive once they are done with it.
  if (kShares || (kMode == LinearMode::kCluster && !args.merges_in_ring)) ArriveAtClusterRelaxed();
  const int rank = kShares ? static_cast<int>(ClusterRank()) : 0;
  cudaTriggerProgrammaticLaunchCompletion();

  if (warp >= kCopyWarp) {
    if constexpr (Traits::kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    // Weights come through barriers of this block only: their warp need not know that the other
    // blocks have started.
    if (warp == kCopyWarp) {
      if (threadIdx.x % 32 == 0) FetchWeights<Traits>(args, shared, rank);
      __syncwarp();
    }
    if constexpr (kShares) WaitForCluster();
    if (warp == kCopyWarp + 1) {
      if (threadIdx.x % 32 == 0) {
        WaitForEarlierKernels();
        FetchInput<Traits>(&input, args, shared, rank);
      }
      __syncwarp();
    }
  } else {
    if constexpr (Traits::kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int index = warp / 4;
    const LinearGroup group{
        .index = index,
        .rows = Traits::kTile.ping_pong ? 0 : index,
        .staging = shared.staging + index * kLinearStagingBytes,
    };
    if constexpr (kShares) WaitForCluster();
    WaitForEarlierKernels();
    if constexpr (kMode == LinearMode::kCluster) {
      ComputeClustered<Traits>(args, shared, group);
    } else if constexpr (kMode == LinearMode::kChain) {
      ComputeChained<Traits>(args, shared, group, rank);
    } else {
      ComputeSequential<Traits>(args, shared, group, rank);
    }
  }
  // A block whose memory others still write to or arrive at must not end.
  if constexpr (kShares) SyncCluster();
#endif
}

/// The kernels of kLinearTiles.
template <typename T>
const auto& LinearKernels() {
  static const auto kernels = []<size_t... kTiles>(std::index_sequence<kTiles...>) {
    return std::array{reinterpret_cast<const void*>(
        InvariantLinearKernel<LinearTraits<T, kLinearTiles[kTiles]>>)...};
  }
  (std::make_index_sequence<kLinearTiles.size()>());
  return kernels;
}

}  // namespace decant
