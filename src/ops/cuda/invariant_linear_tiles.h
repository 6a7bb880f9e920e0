#pragma once

#include <array>
#include <cstdint>

namespace decant {

/// A weight's columns are cut into blocks of this many, its rows likewise; a packed weight is
/// [rows / 64, cols / 64] blocks of 64 rows x 64 elements, swizzled as products want them.
inline constexpr int32_t kLinearBlock = 64;
inline constexpr int32_t kLinearBlockBytes = kLinearBlock * kLinearBlock * 2;

/// Ranges of a weight at most: the blocks that a cluster has on any device.
inline constexpr int32_t kLinearMaxSplits = 8;

/// Threads of a group, which multiply 64 rows together.
inline constexpr int32_t kLinearGroupThreads = 128;

/// Registers of a thread that multiplies and of one that copies, where they move from these to
/// those.
inline constexpr int32_t kLinearMovedRegisters = 232;
inline constexpr int32_t kLinearCopyRegisters = 40;

/// How blocks of threads share the work of a product. The bits are the same in all of them: the sum
/// of an output is cut into the weight's `splits` ranges of column blocks, each range is summed in
/// order from zero, and the ranges' sums are added in order.
enum class LinearMode : uint8_t {
  /// One block a tile and range; the blocks of a tile are a cluster and exchange their sums through
  /// shared memory.
  kCluster,
  /// For one range only: the list of all tiles' column blocks is cut into equal runs, one for each
  /// block of threads; a tile that is cut is begun by one and continued by the next, which takes
  /// over the sums. A block does its run from the last tile to the first, so that what it hands
  /// over
  /// it computes first, and what it takes over it needs last.
  kChain,
  /// One block a tile, its ranges one after another.
  kSequential,
  /// For one range and few tokens: the tokens are the rows of the matrix product and the weight's
  /// rows its columns, of which a tile may have any multiple of 8, so that the tiles come to one
  /// for each multiprocessor. One block a tile, which has all tokens; none is cut.
  kTokenRows,
};

/// The part of the output that a block of threads computes at a time, and how.
struct LinearTile {
  LinearMode mode = LinearMode::kCluster;
  int32_t groups = 1;     ///< groups of four warps that multiply
  int32_t blocks = 1;     ///< row blocks of a group
  int32_t tokens = 8;     ///< tokens; kTokenRows: those that are fetched
  int32_t multicast = 1;  ///< blocks of threads of a cluster that fetch the input for each other
  /// The groups take whole tiles in turn, instead of each a part of the same tile.
  bool ping_pong = false;
  int32_t columns = 0;  ///< kTokenRows: rows of the weight

  constexpr bool token_rows() const { return mode == LinearMode::kTokenRows; }
  /// Whether it is of kTokenRows and suits a TokenRowsUnit.
  constexpr bool has_token_rows(int32_t unit) const {
    return token_rows() && unit != 0 && columns % unit == 0;
  }
  constexpr int32_t row_blocks() const { return (ping_pong ? 1 : groups) * blocks; }
  /// Rows of the weight.
  constexpr int32_t rows() const { return token_rows() ? columns : row_blocks() * kLinearBlock; }
  constexpr int32_t stage_bytes() const { return (rows() + tokens) * kLinearBlock * 2; }
  /// Tokens that a group finishes.
  constexpr int32_t group_tokens() const {
    return token_rows() && tokens > kLinearBlock ? kLinearBlock : tokens;
  }
  /// Columns of a group's sums, whose rows are `blocks` row blocks, or for kTokenRows 64 tokens.
  constexpr int32_t sum_columns() const { return token_rows() ? columns : tokens; }
  /// Tokens of one product; those of a tile beyond 256 are two.
  constexpr int32_t product_tokens() const { return tokens > 256 ? tokens / 2 : tokens; }
  /// Tokens that one copy brings: whole rows of the swizzle, so that the blocks of a cluster may
  /// bring a few of them both.
  constexpr int32_t copy_tokens() const { return (product_tokens() / multicast + 7) / 8 * 8; }
  /// Of the tile's copies, how far apart in tokens those of one block of the cluster begin from the
  /// next one's.
  constexpr int32_t share_step() const {
    return multicast == 1 ? tokens : (tokens - copy_tokens()) / (multicast - 1);
  }
  /// Bytes that come for a stage.
  constexpr int32_t fetched_bytes() const {
    const int32_t copies = multicast == 1 ? tokens / copy_tokens() : multicast;
    return (rows() + copies * copy_tokens()) * kLinearBlock * 2;
  }
  /// fp32 sums of one thread.
  constexpr int32_t sums() const { return blocks * sum_columns() / 2; }
  /// Those of a range, and where its ranges come one after another, of the ranges before it.
  constexpr int32_t kept_sums() const { return sums() * (mode == LinearMode::kSequential ? 2 : 1); }
  /// Whether registers must move from the warps that copy to those that multiply.
  constexpr bool moves_registers() const {
    return groups == 2 && kept_sums() > (mode == LinearMode::kChain ? 120 : 136);
  }
  constexpr int32_t threads() const {
    return groups * kLinearGroupThreads + (moves_registers() ? kLinearGroupThreads : 64);
  }
  /// Whether the registers of two blocks fit on a multiprocessor, by an estimate of what a thread
  /// needs. Tiles that share the input, or are summed range after range, are made for one.
  constexpr bool two_fit() const {
    const bool large = multicast > 1 || (mode == LinearMode::kSequential && tokens > 64);
    return !large && threads() * (kept_sums() + 40) <= 32 * 1024;
  }
  /// Registers of a thread that multiplies: each quarter of a multiprocessor has 512 for each lane,
  /// and a quarter of the warps.
  constexpr int32_t thread_registers() const {
    if (moves_registers()) return kLinearMovedRegisters;
    const int32_t warps = threads() / 32 * (two_fit() ? 2 : 1);
    const int32_t fit = 512 / ((warps + 3) / 4) / 8 * 8;
    return fit < 255 ? fit : 255;
  }
  /// Whether there is room beside the sums for as many numbers that are added to them.
  constexpr bool adds_at_once() const {
    return blocks == 1 && 2 * sums() + 60 <= thread_registers();
  }
  constexpr bool operator==(const LinearTile&) const = default;
};

/// All tiles that are compiled, by how they are chosen: see invariant_linear_plan.cc.
inline constexpr std::array kLinearTiles = {
    LinearTile{.mode = LinearMode::kCluster, .tokens = 8},
    LinearTile{.mode = LinearMode::kCluster, .tokens = 16},
    LinearTile{.mode = LinearMode::kCluster, .tokens = 32},
    LinearTile{.mode = LinearMode::kCluster, .tokens = 64},
    LinearTile{.mode = LinearMode::kCluster, .tokens = 128},
    LinearTile{.mode = LinearMode::kCluster, .groups = 2, .tokens = 128},
    LinearTile{.mode = LinearMode::kCluster, .groups = 2, .tokens = 272},
    LinearTile{.mode = LinearMode::kChain, .tokens = 8},
    LinearTile{.mode = LinearMode::kChain, .tokens = 16},
    LinearTile{.mode = LinearMode::kChain, .tokens = 32},
    LinearTile{.mode = LinearMode::kChain, .tokens = 64},
    LinearTile{.mode = LinearMode::kChain, .groups = 2, .tokens = 32},
    LinearTile{.mode = LinearMode::kChain, .groups = 2, .tokens = 64},
    LinearTile{.mode = LinearMode::kChain, .groups = 2, .blocks = 2, .tokens = 32},
    LinearTile{.mode = LinearMode::kChain, .groups = 2, .tokens = 128, .multicast = 2},
    LinearTile{.mode = LinearMode::kChain, .groups = 2, .tokens = 256, .multicast = 2},
    LinearTile{.mode = LinearMode::kChain,
               .groups = 2,
               .blocks = 2,
               .tokens = 128,
               .multicast = 2,
               .ping_pong = true},
    LinearTile{.mode = LinearMode::kChain,
               .groups = 2,
               .blocks = 2,
               .tokens = 184,  // three have the 544 tokens of a chunk of 512 and 32 rows
               .multicast = 2,
               .ping_pong = true},
    LinearTile{.mode = LinearMode::kChain,
               .groups = 2,
               .blocks = 2,
               .tokens = 192,
               .multicast = 2,
               .ping_pong = true},
    LinearTile{.mode = LinearMode::kSequential, .tokens = 32},
    LinearTile{.mode = LinearMode::kSequential, .tokens = 64},
    LinearTile{.mode = LinearMode::kSequential, .tokens = 112},
    LinearTile{.mode = LinearMode::kSequential, .tokens = 136},
    LinearTile{.mode = LinearMode::kSequential, .groups = 2, .tokens = 96, .multicast = 2},
    LinearTile{.mode = LinearMode::kSequential, .groups = 2, .tokens = 128, .multicast = 2},
    LinearTile{.mode = LinearMode::kSequential, .groups = 2, .tokens = 192, .multicast = 2},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 8, .columns = 136},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 16, .columns = 136},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 32, .columns = 136},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 64, .columns = 136},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 32, .columns = 144},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 64, .columns = 144},
    LinearTile{.mode = LinearMode::kTokenRows, .groups = 2, .tokens = 128, .columns = 144},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 8, .columns = 192},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 16, .columns = 192},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 32, .columns = 192},
    LinearTile{.mode = LinearMode::kTokenRows, .tokens = 64, .columns = 192},
};

/// Shared memory that a block of threads may have on compute capability 9.0.
inline constexpr int32_t kLinearSharedBytes = 227 * 1024;

/// Shared memory in which a group turns its sums: 32 tokens of 64 rows in fp32.
inline constexpr int32_t kLinearStagingBytes = 32 * kLinearBlock * 4;

/// What a group keeps for each token of its tile.
inline constexpr int32_t kTileTokenBytes = 16;

// A product of kTokenRows reads 64 rows of tokens where fewer are fetched: behind the ring's last
// stage that is what a group turns its sums in. What lies there reaches no sum that is used.
static_assert(kLinearStagingBytes >= kLinearBlockBytes);

/// Shared memory of a group, where it finishes `tokens` tokens.
constexpr int32_t LinearGroupBytes(int32_t tokens) {
  return kLinearStagingBytes + tokens * kTileTokenBytes;
}

/// Bytes of shared memory where the ranges' sums of a tile meet, in each block of the cluster.
constexpr int32_t LinearMergeBytes(const LinearTile& tile, int32_t splits) {
  if (tile.mode != LinearMode::kCluster) return 0;
  const int32_t chunks = tile.tokens / 8;
  return tile.groups * ((chunks + splits - 1) / splits) * splits * kLinearGroupThreads * 16;
}

/// Room to start the ring at a multiple of 1024 bytes, which the swizzle asks for.
inline constexpr int32_t kLinearAlignment = 1024;

constexpr int32_t LinearSharedBytes(const LinearTile& tile, int32_t splits, int32_t stages,
                                    bool merges_in_ring) {
  return kLinearAlignment + stages * tile.stage_bytes() +
         (merges_in_ring ? 0 : LinearMergeBytes(tile, splits)) +
         tile.groups * LinearGroupBytes(tile.group_tokens()) + 16 * stages + 8;
}

/// A product cut into tiles and ranges.
struct LinearCut {
  int32_t column_blocks = 0;
  int32_t splits = 1;
  int32_t row_tiles = 0;  ///< of a cluster's blocks together, where they share the input
  int32_t token_tiles = 0;
  /// kChain: column blocks of each worker, and how many workers have one more.
  int32_t run = 0;
  int32_t longer_runs = 0;

  constexpr int32_t tiles() const { return row_tiles * token_tiles; }
  /// First column block of a range; that of range `splits` is the end.
  constexpr int32_t RangeBegin(int32_t range) const { return column_blocks * range / splits; }
};

/// What one worker (a cluster, or a block of threads where there are none) does: pieces of tiles,
/// each a run of column blocks, in this order.
template <LinearMode kMode>
class LinearWalk {
 public:
  /// `range` is which range of its tile a block of a kCluster has.
  constexpr LinearWalk(const LinearCut& cut, int32_t worker, int32_t workers, int32_t range)
      : cut_(cut) {
    if constexpr (kMode == LinearMode::kCluster) {
      tile_ = worker;
      begin_ = cut.RangeBegin(range);
      end_ = cut.RangeBegin(range + 1);
      valid_ = tile_ < cut.tiles();
    } else if constexpr (kMode == LinearMode::kChain) {
      first_unit_ = worker * cut.run + (worker < cut.longer_runs ? worker : cut.longer_runs);
      last_unit_ = first_unit_ + cut.run + (worker < cut.longer_runs ? 1 : 0);
      valid_ = last_unit_ > first_unit_;
      tile_ = (last_unit_ - 1) / cut.column_blocks;
      CutChainPiece();
    } else {
      tile_ = worker;
      step_ = workers;
      end_ = cut.column_blocks;
      valid_ = tile_ < cut.tiles();
    }
  }

  constexpr bool valid() const { return valid_; }
  constexpr int32_t begin() const { return begin_; }
  constexpr int32_t end() const { return end_; }
  constexpr int32_t count() const { return end_ - begin_; }
  constexpr bool continues() const { return begin_ > 0; }
  constexpr bool finishes() const { return end_ == cut_.column_blocks; }

  // Workers that are at work at the same time should share weights, so that these come from device
  // memory once: in a chain workers have runs of tiles, so row tiles go fastest; else tiles side by
  // side are at work together.
  constexpr int32_t row_tile() const {
    if constexpr (kMode == LinearMode::kTokenRows) return tile_;  // one token tile; no division
    return kMode == LinearMode::kChain ? tile_ % cut_.row_tiles : tile_ / cut_.token_tiles;
  }
  constexpr int32_t token_tile() const {
    if constexpr (kMode == LinearMode::kTokenRows) return 0;
    return kMode == LinearMode::kChain ? tile_ / cut_.row_tiles : tile_ % cut_.token_tiles;
  }

  constexpr void Next() {
    if constexpr (kMode == LinearMode::kCluster) {
      valid_ = false;
    } else if constexpr (kMode == LinearMode::kChain) {
      valid_ = tile_ * cut_.column_blocks > first_unit_;
      --tile_;
      CutChainPiece();
    } else {
      tile_ += step_;
      valid_ = tile_ < cut_.tiles();
    }
  }

 private:
  constexpr void CutChainPiece() {
    const int32_t tile_unit = tile_ * cut_.column_blocks;
    begin_ = first_unit_ > tile_unit ? first_unit_ - tile_unit : 0;
    end_ = last_unit_ - tile_unit;
    if (end_ > cut_.column_blocks) end_ = cut_.column_blocks;
  }

  LinearCut cut_;
  int32_t tile_ = 0;
  int32_t begin_ = 0;
  int32_t end_ = 0;
  int32_t first_unit_ = 0;
  int32_t last_unit_ = 0;
  int32_t step_ = 1;
  bool valid_ = false;
};

}  // namespace decant
