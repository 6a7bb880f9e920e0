#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <utility>

#include "ops/cuda/invariant_linear_ring.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/linear_finish.cuh"
#include "ops/cuda/linear_finish_token_rows.cuh"
#include "ops/cuda/tensor_core.cuh"
#include "ops/cuda/wgmma.cuh"

namespace decant {

template <class Traits>
using LinearSums = float[Traits::kBlocks][Traits::kSumColumns / 2];

template <class Traits>
__device__ inline void ClearSums(LinearSums<Traits>& sums) {
#pragma unroll
  for (int i = 0; i < Traits::kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < Traits::kSumColumns / 2; ++j) sums[i][j] = 0;
  }
}

/// Keeps the compiler from moving the sums' registers while products run.
template <class Traits>
__device__ inline void PinSums(LinearSums<Traits>& sums) {
#pragma unroll
  for (int i = 0; i < Traits::kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < Traits::kSumColumns / 2; ++j) {
      asm volatile("" : "+f"(sums[i][j])::"memory");
    }
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

/// Arrives at barrier `id` without waiting.
__device__ inline void ArriveThreads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// sums += the products of the next `count` column blocks, in order. `group` is which rows of the
/// products are the caller's: of the tile, or kTokenRows: 64 tokens. `issued` is called when the
/// last product has been issued. `count` may be 0.
template <class Traits, class Issued>
__device__ inline void AddBlocks(LinearSums<Traits>& sums, const LinearShared& shared,
                                 RingPlace& place, int group, int count, Issued&& issued) {
  constexpr int kSteps = kLinearBlock / 16;
  constexpr int kColumns = Traits::kProductColumns;
  int previous = 0;
  PinSums<Traits>(sums);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    WaitInPlace(shared.full(place.stage), place.parity);
    const uint32_t stage = shared.ring + place.stage * Traits::kStageBytes;
    const uint32_t input = stage + Traits::kWeightBytes;
    const uint64_t rows = DescribeOperand((Traits::kTokenRows ? input : stage) +
                                          group * Traits::kBlocks * kLinearBlockBytes);
    const uint64_t columns = DescribeOperand(Traits::kTokenRows ? stage : input);
    FenceProducts();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int block = 0; block < Traits::kBlocks; ++block) {
#pragma unroll
        for (int first = 0; first < Traits::kSumColumns; first += kColumns) {
          GroupProduct<typename Traits::Type, kColumns>::Add(
              reinterpret_cast<float(&)[kColumns / 2]>(sums[block][first / 2]),
              rows + block * (kLinearBlockBytes >> 4) + step * 2,
              columns + first * (kLinearBlock * 2 >> 4) + step * 2);
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
  if (count > 0) ReleaseStage<Traits>(shared, previous);
}

/// A group of four warps that multiply.
template <class Traits>
struct LinearGroup {
  int index = 0;  ///< of the block's
  int rows = 0;   ///< which rows of the tile are its: index, or 0 where groups take turns
  TileTokens<typename Traits::Type, Traits::kGroupTokens>& tokens;
  float* turned = nullptr;  ///< kLinearStagingBytes of shared memory

  __device__ int barrier() const { return 1 + index; }
};

template <class Traits, LinearFinish kFinish>
using FinisherOf = LinearFinisher<typename Traits::Type, Traits::kTokens, kFinish>;

/// A block begins with a rehearsal: a tile behind the last token, of which no product is computed,
/// nothing is loaded and nothing written. That brings the instructions for what stands around the
/// products to the multiprocessor while the kernels before this one still run or the first input is
/// on its way: else each is waited for when it is needed, which takes longer than to run it.
template <class Traits>
__device__ inline int RehearsedTile(const LinearArguments& args) {
  return (args.tokens + Traits::kTokens - 1) / Traits::kTokens;
}

/// Chunks of 8 tokens that there are of a tile; of the rehearsed one, those that are finished
/// together.
template <class Traits>
__device__ inline int ChunksOf(const LinearArguments& args, int first_token) {
  if (first_token >= args.tokens) return min(Traits::kChunks, kFinishChunks);
  return min(Traits::kChunks, (args.tokens - first_token + 7) / 8);
}

template <class Traits, LinearFinish kFinish>
__device__ inline void FinishTileAs(LinearSums<Traits>& sums, const LinearArguments& args,
                                    const LinearGroup<Traits>& group, int first_row_block,
                                    int first_token) {
#pragma unroll
  for (int block = 0; block < Traits::kBlocks; ++block) {
    const int row = (first_row_block + group.rows * Traits::kBlocks + block) * kLinearBlock;
    if (row >= args.rows) continue;
    const FinisherOf<Traits, kFinish> finisher(args, group.tokens, row, first_token, group.turned);
    // All of it at once where registers have room, so that it is waited for once.
    constexpr bool kAllBeside = Traits::kTile.adds_at_once();
    float4 all_beside[kAllBeside ? Traits::kChunks : 1];
    if constexpr (kAllBeside) {
#pragma unroll
      for (int i = 0; i < Traits::kChunks; ++i) all_beside[i] = finisher.BesideOf(i);
    }
    finisher.Finish(0, 1, ChunksOf<Traits>(args, first_token),
                    [&](int begin, float4(&beside)[kFinishChunks]) {
                      if constexpr (!kAllBeside) {
#pragma unroll
                        for (int i = 0; i < kFinishChunks; ++i)
                          beside[i] = finisher.BesideOf(begin + i);
                      }
      // A branch for each place, since registers have no addresses.
#pragma unroll
                      for (int first = 0; first < Traits::kChunks; first += kFinishChunks) {
                        if (first != begin) continue;
#pragma unroll
                        for (int i = first; i < first + kFinishChunks && i < Traits::kChunks; ++i) {
                          const float* at = sums[block] + i * 4;
                          finisher.Stage(i - first, make_float4(at[0], at[1], at[2], at[3]));
                          if constexpr (kAllBeside) beside[i - first] = all_beside[i];
                        }
                      }
                    });
  }
}

/// Finishes a tile whose sums are in registers.
template <class Traits>
__device__ inline void FinishTile(LinearSums<Traits>& sums, const LinearArguments& args,
                                  const LinearGroup<Traits>& group, int first_row_block,
                                  int first_token) {
  WithFinish(args.result.finish, [&](auto finish) {
    FinishTileAs<Traits, finish()>(sums, args, group, first_row_block, first_token);
  });
}

/// kSequential: tile after tile, range after range.
template <class Traits>
__device__ inline void ComputeSequential(const LinearArguments& args, const LinearShared& shared,
                                         const LinearGroup<Traits>& group, int rank) {
  LinearSums<Traits> sums;
  LinearSums<Traits> total;
  ClearSums<Traits>(total);
  RingPlace place;
  auto walk = MakeWalk<Traits>(args);
#pragma unroll 1
  for (bool rehearses = true; walk.valid(); rehearses = false) {
    const int tile = rehearses ? RehearsedTile<Traits>(args) : walk.token_tile();
    if (!rehearses) WaitForEarlierKernels();
    group.tokens.Prepare(tile);
    const int ranges = rehearses ? 0 : args.cut.splits;
    for (int range = 0; range < ranges; ++range) {
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
    FinishTile<Traits>(total, args, group, FirstRowBlock<Traits>(walk, rank),
                       tile * Traits::kTokens);
    if (!rehearses) walk.Next();
  }
}

/// kCluster: one range of one tile; each block sends its sums to those that add them up, 8 tokens
/// to one block, the next 8 to the next.
template <class Traits>
__device__ inline void ComputeClustered(const LinearArguments& args, const LinearShared& shared,
                                        const LinearGroup<Traits>& group) {
  const int splits = args.cut.splits;
  const auto walk = MakeWalk<Traits>(args);
  const int rank = static_cast<int>(ClusterRank());
  const int thread = threadIdx.x % kLinearGroupThreads;
  const int row = (walk.row_tile() * Traits::kRowBlocks + group.rows) * kLinearBlock;
  constexpr int kSumBytes = kLinearGroupThreads * 16;  // 8 tokens of a group's rows, from one block
  const uint32_t group_merge =
      shared.merge + group.index * ((Traits::kChunks + splits - 1) / splits) * splits * kSumBytes +
      thread * 16;

  LinearSums<Traits> sums;
  RingPlace place;
#pragma unroll 1
  for (bool rehearses = true;; rehearses = false) {
    const int tile = rehearses ? RehearsedTile<Traits>(args) : walk.token_tile();
    const int first_token = tile * Traits::kTokens;
    const int chunks = ChunksOf<Traits>(args, first_token);
    if (!rehearses) WaitForEarlierKernels();
    group.tokens.Prepare(tile);
    ClearSums<Traits>(sums);
    AddBlocks<Traits>(sums, shared, place, group.rows, rehearses ? 0 : walk.count(), [] {});

    if (!rehearses) {
      // The others have started, and where sums meet in the ring, are done with theirs.
      if (args.merges_in_ring) ArriveAtCluster();
      WaitForCluster();
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
    }

    // At least one, so that all go through the same instructions.
    const int owned = rehearses ? 1 : (chunks - rank + splits - 1) / splits;
    const bool finishes = owned > 0 && row < args.rows;
    const int ranges = rehearses ? 0 : splits;  // where they meet, copies write in the rehearsal
    if (finishes) {
      WithFinish(args.result.finish, [&](auto finish) {
        const FinisherOf<Traits, finish()> finisher(args, group.tokens, row, first_token,
                                                    group.turned);
        finisher.Finish(rank, splits, owned, [&](int begin, float4(&beside)[kFinishChunks]) {
#pragma unroll
          for (int i = 0; i < kFinishChunks; ++i) {
            beside[i] = finisher.BesideOf(rank + (begin + i) * splits);
          }
          if (!rehearses && begin == 0) WaitInPlace(shared.merged(), 0);
#pragma unroll
          for (int i = 0; i < kFinishChunks; ++i) {
            if (begin + i >= owned) continue;
            const uint32_t from = group_merge + (begin + i) * splits * kSumBytes;
            float4 sum = rehearses ? float4{} : LoadShared4(from);
            for (int range = 1; range < ranges; ++range) {
              const float4 next = LoadShared4(from + range * kSumBytes);
              sum = make_float4(sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w);
            }
            finisher.Stage(i, sum);
          }
        });
      });
    }
    if (rehearses) continue;
    // Memory that others still send to must not go.
    if (owned > 0 && !finishes) WaitInPlace(shared.merged(), 0);
    return;
  }
}

/// What one block of threads hands to the next in a chain.
struct HandOver {
  float4* sums;    ///< of the calling thread, 128 apart
  uint32_t* flag;  ///< of its group
};

template <class Traits>
__device__ inline HandOver HandOverOf(const LinearArguments& args, const LinearGroup<Traits>& group,
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

template <class Traits>
__device__ inline void AwaitHandOver(const HandOver& from, const LinearGroup<Traits>& group) {
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
                                const LinearGroup<Traits>& group) {
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
                                      const LinearGroup<Traits>& group, int rank) {
  constexpr bool kTurns = Traits::kTile.ping_pong;
  constexpr int kTurnBarrier = 1 + Traits::kGroups;
  LinearSums<Traits> sums;
  RingPlace place;
  int turn = 0;
  auto walk = MakeWalk<Traits>(args);
  if constexpr (kTurns) WaitForEarlierKernels();
  // Groups that take turns have long tiles, and the other's to wait for.
  bool rehearses = !kTurns;
#pragma unroll 1
  while (walk.valid()) {
    if (kTurns && turn % 2 != group.index) {
      place.Skip(walk.count(), shared.stages);
      walk.Next();
      ++turn;
      continue;
    }
    const int tile = rehearses ? RehearsedTile<Traits>(args) : walk.token_tile();
    const bool finishes = rehearses || walk.finishes();
    const bool takes = !rehearses && walk.continues();
    const HandOver from =
        HandOverOf<Traits>(args, group, static_cast<int>(blockIdx.x) - Traits::kMulticast);
    if (!kTurns && !rehearses) WaitForEarlierKernels();
    if (finishes) group.tokens.Prepare(tile);
    if (takes) AwaitHandOver(from, group);
    BeginSums<Traits>(sums, from, takes);
    if (kTurns && turn > 0) SyncThreads(kTurnBarrier + group.index, 2 * kLinearGroupThreads);
    AddBlocks<Traits>(sums, shared, place, group.rows, rehearses ? 0 : walk.count(), [&] {
      if constexpr (kTurns) {
        auto next = walk;
        next.Next();
        if (next.valid()) ArriveThreads(kTurnBarrier + (group.index ^ 1), 2 * kLinearGroupThreads);
      }
    });
    if (finishes) {
      FinishTile<Traits>(sums, args, group, FirstRowBlock<Traits>(walk, rank),
                         tile * Traits::kTokens);
    } else {
      GiveSums<Traits>(sums, HandOverOf<Traits>(args, group, blockIdx.x), group);
    }
    if (rehearses) {
      rehearses = false;
    } else {
      walk.Next();
      ++turn;
    }
  }
}

/// kTokenRows: tile after tile. Each group has 64 tokens of a tile.
template <class Traits>
__device__ inline void ComputeTokenRows(const LinearArguments& args, const LinearShared& shared,
                                        const LinearGroup<Traits>& group) {
  constexpr int kTokens = Traits::kGroupTokens;
  LinearSums<Traits> sums;
  RingPlace place;
  auto walk = MakeWalk<Traits>(args);
#pragma unroll 1
  for (bool rehearses = true; walk.valid(); rehearses = false) {
    const int tile = rehearses ? RehearsedTile<Traits>(args) : walk.token_tile();
    const int token_tile = tile * Traits::kGroups + group.index;
    if (!rehearses) WaitForEarlierKernels();
    group.tokens.Prepare(token_tile);
    ClearSums<Traits>(sums);
    AddBlocks<Traits>(sums, shared, place, group.index, rehearses ? 0 : walk.count(), [] {});
    const TokenRowsFinisher<typename Traits::Type, kTokens, Traits::kSumColumns / 2> finisher(
        args, group.tokens, FirstRow<Traits>(walk, 0), token_tile * kTokens, group.turned);
    finisher.Finish(sums[0]);
    if (!rehearses) walk.Next();
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
    const int chunks = ChunksOf<Traits>(args, walk.token_tile() * Traits::kTokens);
    const int owned = max(0, (chunks - rank + args.cut.splits - 1) / args.cut.splits);
    InitBarrier(shared.merged(), 1);
    ExpectBytes(shared.merged(),
                owned * args.cut.splits * Traits::kGroups * kLinearGroupThreads * 16);
  }
  FenceBarrierInit();
}

template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads, Traits::kMinBlocks)
    InvariantLinearKernel(const __grid_constant__ CUtensorMap input,
                          const __grid_constant__ LinearArguments args) {
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
    if constexpr (Traits::kMovesRegisters) GiveRegistersBack<kLinearCopyRegisters>();
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
    if constexpr (Traits::kMovesRegisters) TakeRegisters<kLinearMovedRegisters>();
    const int index = warp / 4;
    char* own = memory + (shared.groups - SharedAddress(memory)) +
                index * LinearGroupBytes(Traits::kGroupTokens);
    TileTokens<typename Traits::Type, Traits::kGroupTokens> tokens(
        args, 1 + index, reinterpret_cast<TileToken*>(own + kLinearStagingBytes));
    const LinearGroup<Traits> group{
        .index = index,
        .rows = Traits::kTile.ping_pong ? 0 : index,
        .tokens = tokens,
        .turned = reinterpret_cast<float*>(own),
    };
    if constexpr (kShares) WaitForCluster();
    if constexpr (kMode == LinearMode::kCluster) {
      ComputeClustered<Traits>(args, shared, group);
    } else if constexpr (kMode == LinearMode::kChain) {
      ComputeChained<Traits>(args, shared, group, rank);
    } else if constexpr (kMode == LinearMode::kTokenRows) {
      ComputeTokenRows<Traits>(args, shared, group);
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
