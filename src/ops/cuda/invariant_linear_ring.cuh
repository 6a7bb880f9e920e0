#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/bulk_copy.cuh"
#include "ops/cuda/cluster.cuh"
#include "ops/cuda/invariant_linear_kernel.h"

namespace decant {

/// How weights and inputs come to shared memory on compute capability 9.0.

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
  static constexpr int kRows = kTile.rows();
  static constexpr int kWeightBytes = kRows * kLinearBlock * 2;
  static constexpr int kStageBytes = kTile.stage_bytes();
  static constexpr int kFetchedBytes = kTile.fetched_bytes();
  /// Groups that read one stage.
  static constexpr int kReaders = kTile.ping_pong ? 1 : kGroups;
  static constexpr bool kMovesRegisters = kTile.moves_registers();
  static constexpr int kThreads = kTile.threads();
  static constexpr bool kTokenRows = kTile.token_rows();
  static constexpr int kGroupTokens = kTile.group_tokens();
  static constexpr int kSumColumns = kTile.sum_columns();
  /// Columns of one product.
  static constexpr int kProductColumns = kTokenRows ? kSumColumns : kTile.product_tokens();
  /// 8 tokens of a row block.
  static constexpr int kChunks = kTokens / 8;
  static constexpr int kMinBlocks = kTile.two_fit() ? 2 : 1;
  static_assert(kTile.mode != LinearMode::kCluster || (kMulticast == 1 && kBlocks == 1));
  static_assert(!kTokenRows || (kMulticast == 1 && kBlocks == 1 && kRows % 8 == 0 &&
                                (kGroups == 1 || kTokens == kGroups * kLinearBlock)));
};

/// Shared memory: the ring's stages, then where ranges meet (unless in the ring), each group's,
/// barriers.
struct LinearShared {
  uint32_t ring;
  uint32_t merge;
  uint32_t groups;
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
  shared.groups = ring_end + (args.merges_in_ring ? 0 : LinearMergeBytes(kTile, args.cut.splits));
  shared.barriers = shared.groups + Traits::kGroups * LinearGroupBytes(Traits::kGroupTokens);
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

/// Says that the calling group is done with a stage.
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

template <class Traits>
__device__ inline int FirstRowBlock(const WalkOf<Traits>& walk, int rank) {
  return (walk.row_tile() * Traits::kMulticast + rank) * Traits::kRowBlocks;
}

/// First of the calling block's rows.
template <class Traits>
__device__ inline int FirstRow(const WalkOf<Traits>& walk, int rank) {
  return (walk.row_tile() * Traits::kMulticast + rank) * Traits::kRows;
}

inline constexpr int kFillBytesPerTick = 40;

/// The multiprocessor's clock, which begins again after seconds.
__device__ inline uint32_t Ticks() {
  uint32_t ticks;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(ticks));
  return ticks;
}

/// Rows of a tile that lie together in one of the weight's blocks.
struct WeightPiece {
  const char* source;
  uint32_t target;  ///< from the stage's beginning on
  uint32_t bytes;
};

/// Pieces of a tile. One of kTokenRows may begin at any multiple of 8 rows; a row's swizzle, which
/// depends on its place modulo 8, is the same in tile and block then.
template <class Traits>
inline constexpr int kWeightPieces = Traits::kRows % kLinearBlock == 0
                                         ? Traits::kRows / kLinearBlock
                                         : (Traits::kRows + 2 * kLinearBlock - 9) / kLinearBlock;

/// Where the tile's rows are in the column block `column_block`.
template <class Traits>
__device__ inline void FindWeights(const LinearArguments& args, int first_row, int column_block,
                                   WeightPiece (&pieces)[kWeightPieces<Traits>]) {
  constexpr int kRowBytes = kLinearBlock * 2;
  constexpr bool kWholeBlocks = Traits::kRows % kLinearBlock == 0;
  const int first_block = static_cast<int>(static_cast<unsigned>(first_row) / kLinearBlock);
  const int last_block = (args.rows - 1) / kLinearBlock;
  int done = 0;
#pragma unroll
  for (int i = 0; i < kWeightPieces<Traits>; ++i) {
    // Only the first piece may begin within a block; the last may have no rows.
    const int in_block = kWholeBlocks || i > 0 ? 0 : first_row % kLinearBlock;
    const int rows = min(Traits::kRows - done, kLinearBlock - in_block);
    // A row block past the weight's end is the last one once more; nobody reads its sums.
    const int64_t block = min(first_block + i, last_block);
    pieces[i].source = static_cast<const char*>(args.weight) +
                       (block * args.cut.column_blocks + column_block) * kLinearBlockBytes +
                       in_block * kRowBytes;
    pieces[i].target = done * kRowBytes;
    pieces[i].bytes = rows * kRowBytes;
    done += rows;
  }
}

/// Fetches the weight's blocks. They do not depend on earlier kernels, so the ring is filled while
/// those still run.
template <class Traits>
__device__ inline void FetchWeights(const LinearArguments& args, const LinearShared& shared,
                                    int rank) {
  const uint64_t policy = args.streams_weight ? ReadOncePolicy() : EvictNormalPolicy();
  RingPlace place{.stage = 0, .parity = 1};
  // No faster than twice what memory gives a multiprocessor: the copy engine takes orders in turn,
  // and when the ring is filled at first, the input's must not wait behind all of the weight's.
  constexpr uint32_t kTicksPerStage = Traits::kWeightBytes / kFillBytesPerTick;
  uint32_t last_tick = Ticks();
  for (auto walk = MakeWalk<Traits>(args); walk.valid(); walk.Next()) {
    WeightPiece pieces[kWeightPieces<Traits>];
    FindWeights<Traits>(args, FirstRow<Traits>(walk, rank), walk.begin(), pieces);
    for (int count = walk.count(); count > 0; --count) {
      const uint32_t full = shared.full(place.stage);
      const uint32_t target = shared.ring + place.stage * Traits::kStageBytes;
      WaitInPlace(shared.empty(place.stage), place.parity);
      // Whatever the clock has done meanwhile, this ends within kTicksPerStage.
      while (Ticks() - last_tick < kTicksPerStage) continue;
      last_tick = Ticks();
      ExpectBytes(full, Traits::kFetchedBytes);
#pragma unroll
      for (WeightPiece& piece : pieces) {
        if (piece.bytes > 0) {
          CopyBulkWith(policy, target + piece.target, piece.source, piece.bytes, full);
        }
        piece.source += kLinearBlockBytes;
      }
      place.Advance(shared.stages);
    }
  }
}

/// Fetches the input's blocks, each block of a cluster its share for all of them.
template <class Traits>
__device__ inline void FetchInput(const CUtensorMap* input, const LinearArguments& args,
                                  const LinearShared& shared, int rank) {
  constexpr int kCopyTokens = Traits::kTile.copy_tokens();
  constexpr int kRowBytes = kLinearBlock * 2;
  constexpr bool kShares = Traits::kMulticast > 1;
  static_assert(!kShares || kCopyTokens + Traits::kTile.share_step() == Traits::kTokens);
  const int share = rank * Traits::kTile.share_step();
  RingPlace place{.stage = 0, .parity = 1};
  for (auto walk = MakeWalk<Traits>(args); walk.valid(); walk.Next()) {
    const int token = walk.token_tile() * Traits::kTokens + share;
    for (int block = walk.begin(); block < walk.end(); ++block) {
      const uint32_t target = shared.ring + place.stage * Traits::kStageBytes +
                              Traits::kWeightBytes + share * kRowBytes;
      const uint32_t full = shared.full(place.stage);
      WaitInPlace(shared.empty(place.stage), place.parity);
      if constexpr (kShares) {
        BoxCopyTo((1U << Traits::kMulticast) - 1, target, input, block * kLinearBlock, token, full);
      } else {
#pragma unroll
        for (int i = 0; i < Traits::kTokens; i += kCopyTokens) {
          BoxCopy(target + i * kRowBytes, input, block * kLinearBlock, token + i, full);
        }
      }
      place.Advance(shared.stages);
    }
  }
}

}  // namespace decant
