#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/cuda/step_arrays.h"
#include "ops/step_batch.h"

namespace decant {

/// Keys that the ranged prompt kernel takes at once.
inline constexpr int32_t kPromptKeys = 128;

/// Query rows of one warpgroup of it; a tile has one or two such parts.
inline constexpr int32_t kPromptPartRows = 64;

/// Tiles do not reach over multiples of this many positions: all queries of a tile have the same
/// ranges.
inline constexpr int32_t kPromptBucket = 512;

/// Most ranges that a history is cut into.
inline constexpr int32_t kMostPromptRanges = 3;

/// The width in keys of the ranges that the history of a query at `position` is cut into, from
/// position 0 on. A multiple of kPromptKeys that depends on the position alone: the bits of a
/// query's result depend on its ranges, and on nothing else that a plan may choose.
int32_t PromptRangeKeys(int32_t position);

/// What a block does at a time: a tile of packed query rows (row = token * group + head in group)
/// against keys [key_begin, key_end), whole ranges or up to the tile's last key.
struct alignas(16) PromptItem {
  int32_t token_start = 0;     ///< The chunk's first token in queries and attended.
  int32_t first_position = 0;  ///< That token's position.
  int32_t first_row = 0;       ///< The tile's first packed row in the chunk.
  int32_t rows = 0;            ///< 1 to 2 * kPromptPartRows; 0: no item.
  int32_t kv_head = 0;
  int32_t table = 0;    ///< Where the request's block table begins in StepArrays::block_tables.
  int32_t context = 0;  ///< Positions of the request that are in the cache.
  int32_t key_begin = 0;
  int32_t key_end = 0;
  int32_t range = 0;  ///< PromptRangeKeys of the tile's positions.
  /// The item is a range whose sums go here, those of its second part of rows (if there is one) to
  /// the next slot; or, where `awaited` is not 0, where the sums of the tile's range 1 come. -1:
  /// the item is a whole tile.
  int32_t slot = 0;
  /// Not 0: the item is a tile's range 0, and whoever sums it waits for so many other ranges of the
  /// tile, merges them and writes the result.
  int32_t awaited = 0;
};
static_assert(sizeof(PromptItem) == 48);

/// Up to kPromptPartRows packed rows whose ranges are summed by several items, none of which merges
/// them.
struct alignas(16) PromptMerge {
  int32_t token_start = 0;
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t kv_head = 0;
  int32_t slot = 0;    ///< Of the first range's sums.
  int32_t stride = 0;  ///< From one range's slot to the next one's.
  int32_t ranges = 0;
  int32_t unused = 0;
};
static_assert(sizeof(PromptMerge) == 32);

/// What the planner knows before the first step.
struct PromptPlanLimits {
  AttentionShape shape;
  int32_t multiprocessors = 0;
  int32_t max_tokens = 0;  ///< of a step
  int32_t max_rows = 0;    ///< of a step
};

/// Choices that change no bits. The defaults are for speed; tests try others.
struct PromptPlanChoices {
  enum class Cut {
    kBalanced,  ///< Tiles that do not fit into an even load are cut at all their ranges.
    kAll,
    kNone,
  };
  Cut cut = Cut::kBalanced;
  int32_t tile_rows = 0;  ///< kPromptPartRows, twice that, or 0: what is predicted to be faster.
};

/// Deals a step's prompt chunks out as work for the ranged prompt kernel. Host code; one thread at
/// a time.
class PromptPlanner {
 public:
  explicit PromptPlanner(const PromptPlanLimits& limits);

  /// Most items, merges and slots that a plan has.
  PromptPlanCounts most() const { return most_; }
  const AttentionShape& shape() const { return limits_.shape; }
  int32_t multiprocessors() const { return limits_.multiprocessors; }

  /// Plans the rows of more than one query; `table_stride` entries of block_tables a row. Items
  /// come in order of falling cost, which is the order to take them in.
  PromptPlanCounts Plan(std::span<const BatchRow> rows, int32_t table_stride,
                        const PromptPlanChoices& choices = {});

  /// Of the last plan.
  std::span<const PromptItem> items() const { return items_; }
  std::span<const PromptMerge> merges() const { return merges_; }

 private:
  /// One tile, the same for every KV head.
  struct Tile {
    int32_t row = 0;
    int32_t first_row = 0;
    int32_t rows = 0;
    int32_t key_end = 0;
    int32_t range = 0;
    int32_t cost = 0;
  };
  /// A tile of one KV head, or one range of it.
  struct Piece {
    int32_t tile = 0;
    int32_t kv_head = 0;
    int32_t range = 0;  ///< kWhole, or the range's number.
    int32_t cost = 0;
    int32_t cut = 0;  ///< The number of the cut tile, where it is a range.
  };
  static constexpr int32_t kWhole = -1;
  /// A tile of one KV head that is cut.
  struct CutTileOfHead {
    int32_t tile = 0;
    int32_t kv_head = 0;
    int32_t slot = 0;  ///< Of the first range that has one.
    int32_t ranges = 0;
    bool merged_by_first = false;  ///< By whoever sums range 0, which then has no slot.
  };

  int32_t Cost(int32_t keys, int32_t rows) const;
  void MakeTiles(int32_t tile_rows);
  int32_t PredictTime();
  void ChoosePieces(const PromptPlanChoices& choices);
  void CutTiles(PromptPlanChoices::Cut cut);
  void CutTile(int32_t tile, int32_t kv_head);
  void ChooseMergers();
  void AddMerges();
  void SortByCost(std::vector<Piece>& pieces);

  PromptPlanLimits limits_;
  PromptPlanCounts most_;
  std::vector<Tile> tiles_;
  std::vector<Piece> whole_;
  std::vector<Piece> pieces_;
  std::vector<Piece> sorted_;
  std::vector<CutTileOfHead> cut_tiles_;
  std::vector<int32_t> loads_;
  std::vector<int32_t> starts_;
  std::vector<PromptItem> items_;
  std::vector<PromptMerge> merges_;
  int32_t slots_ = 0;
  int32_t mergers_ = 0;
  int32_t makespan_ = 0;  ///< As predicted.
  std::span<const BatchRow> rows_;
};

}  // namespace decant
