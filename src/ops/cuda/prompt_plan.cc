#include "ops/cuda/prompt_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

// What things take, in units of 50 ns, about as measured on an H200 with heads of 128 dims. Only
// the balance depends on them.
constexpr int32_t kWideBlockCost = 32;    ///< 128 keys against two parts of rows
constexpr int32_t kNarrowBlockCost = 26;  ///< against one part of rows
constexpr int32_t kItemCost = 24;         ///< To start an item and to end it.
constexpr int32_t kPartialCost = 8;       ///< To write and merge the sums of a range.

constexpr int32_t kMostCost = 4096;  ///< Longer items are sorted as if they took this.

/// Steps of more tokens have enough tiles of two parts for every multiprocessor.
constexpr int32_t kMostNarrowTokens = 1024;

/// A heap of loads, the least on top: what is on top has grown.
void SiftDown(std::vector<int32_t>& loads) {
  const size_t size = loads.size();
  const int32_t load = loads[0];
  size_t at = 0;
  for (size_t child = 1; child < size; child = 2 * at + 1) {
    if (child + 1 < size && loads[child + 1] < loads[child]) ++child;
    if (loads[child] >= load) break;
    loads[at] = loads[child];
    at = child;
  }
  loads[at] = load;
}

}  // namespace

int32_t PromptRangeKeys(int32_t position) {
  const int32_t bucket_end = RoundUp(position + 1, kPromptBucket);
  // Three ranges fill the multiprocessors that the tiles of a usual chunk leave idle.
  if (bucket_end == kPromptBucket) return kPromptBucket;
  return RoundUp(bucket_end * 3 / 8, kPromptKeys);
}

int32_t PromptPlanner::Cost(int32_t keys, int32_t rows) const {
  return CeilDiv(keys, kPromptKeys) * (rows > kPromptPartRows ? kWideBlockCost : kNarrowBlockCost) +
         kItemCost;
}

PromptPlanner::PromptPlanner(const PromptPlanLimits& limits) : limits_(limits) {
  const int32_t group = limits.shape.group();
  const int32_t buckets = limits.max_tokens / kPromptBucket + 2 * limits.max_rows;
  const int32_t tiles =
      (CeilDiv(limits.max_tokens * group, kPromptPartRows) + buckets) * limits.shape.kv_heads;
  // Beyond this, tiles stay whole: there are enough of them.
  const int32_t most_slots = 8 * limits.multiprocessors;
  most_.slots = std::min(kMostPromptRanges * 2 * tiles, most_slots);
  most_.items = kMostPromptRanges * tiles;
  most_.merges = 2 * tiles;
  tiles_.reserve(tiles);
  whole_.reserve(most_.items);
  pieces_.reserve(most_.items);
  sorted_.reserve(most_.items);
  items_.reserve(most_.items);
  cut_tiles_.reserve(tiles);
  merges_.reserve(most_.merges);
  loads_.reserve(limits.multiprocessors);
  starts_.reserve(kMostCost + 1);
}

void PromptPlanner::MakeTiles(int32_t tile_rows) {
  const int32_t group = limits_.shape.group();
  tiles_.clear();
  for (size_t r = 0; r < rows_.size(); ++r) {
    const BatchRow& row = rows_[r];
    if (row.query_len == 1) continue;
    const int32_t first_position = row.context_len - row.query_len;
    for (int32_t token = 0; token < row.query_len;) {
      const int32_t position = first_position + token;
      const int32_t bucket_end = RoundUp(position + 1, kPromptBucket) - first_position;
      const int32_t end = std::min(row.query_len, bucket_end);
      for (int32_t first = token * group; first < end * group; first += tile_rows) {
        Tile tile{.row = Narrow<int32_t>(r),
                  .first_row = first,
                  .rows = std::min(tile_rows, end * group - first),
                  .range = PromptRangeKeys(position)};
        tile.key_end = first_position + (first + tile.rows - 1) / group + 1;
        tile.cost = Cost(tile.key_end, tile.rows);
        tiles_.push_back(tile);
      }
      token = end;
    }
  }
}

/// When the last multiprocessor would be done with pieces_, each taking the next one once it is
/// done with its last.
int32_t PromptPlanner::PredictTime() {
  loads_.assign(limits_.multiprocessors, 0);
  int32_t last = 0;
  for (const Piece& piece : pieces_) {
    loads_[0] += piece.cost;
    last = std::max(last, loads_[0]);
    SiftDown(loads_);
  }
  return last;
}

void PromptPlanner::ChoosePieces(const PromptPlanChoices& choices) {
  const auto choose = [&](int32_t tile_rows) {
    MakeTiles(tile_rows);
    CutTiles(choices.cut);
    makespan_ = PredictTime();
  };
  constexpr int32_t kWideRows = 2 * kPromptPartRows;
  int32_t tokens = 0;
  for (const BatchRow& row : rows_) tokens += row.query_len == 1 ? 0 : row.query_len;
  if (choices.tile_rows != 0 || tokens > kMostNarrowTokens) {
    return choose(choices.tile_rows == 0 ? kWideRows : choices.tile_rows);
  }
  choose(kWideRows);
  // Rows of narrow tiles take longer, so they are for multiprocessors that would be idle.
  if (std::ssize(pieces_) >= limits_.multiprocessors) return;
  const int32_t wide = makespan_;
  choose(kPromptPartRows);
  if (wide <= makespan_) choose(kWideRows);
}

void PromptPlanner::CutTile(int32_t number, int32_t kv_head) {
  const Tile& tile = tiles_[number];
  const int32_t ranges = CeilDiv(tile.key_end, tile.range);
  for (int32_t range = 0; range < ranges; ++range) {
    const int32_t keys = std::min(tile.range, tile.key_end - range * tile.range);
    pieces_.push_back({.tile = number,
                       .kv_head = kv_head,
                       .range = range,
                       .cost = Cost(keys, tile.rows) + kPartialCost,
                       .cut = Narrow<int32_t>(cut_tiles_.size())});
  }
  cut_tiles_.push_back({.tile = number, .kv_head = kv_head, .ranges = ranges});
}

/// A block whose first item takes about as long as the whole step can as well wait for the tile's
/// other ranges, and need neither write its own nor read it again. It takes no other item, so some
/// blocks must be left that do not wait.
void PromptPlanner::ChooseMergers() {
  const auto first_items = std::min<size_t>(pieces_.size(), limits_.multiprocessors);
  mergers_ = 0;
  for (size_t i = 0; i < first_items && 2 * mergers_ < limits_.multiprocessors - 1; ++i) {
    const Piece& piece = pieces_[i];
    if (piece.range != 0 || 4 * piece.cost < 3 * makespan_) continue;
    cut_tiles_[piece.cut].merged_by_first = true;
    ++mergers_;
  }
}

/// Gives slots to the ranges that need one, and lists what nobody merges on the way.
void PromptPlanner::AddMerges() {
  merges_.clear();
  slots_ = 0;
  for (CutTileOfHead& cut : cut_tiles_) {
    const Tile& tile = tiles_[cut.tile];
    const int32_t parts = CeilDiv(tile.rows, kPromptPartRows);
    cut.slot = slots_;
    slots_ += (cut.ranges - (cut.merged_by_first ? 1 : 0)) * parts;
    if (cut.merged_by_first) continue;
    for (int32_t part = 0; part < parts; ++part) {
      merges_.push_back({.token_start = rows_[tile.row].query_start,
                         .first_row = tile.first_row + part * kPromptPartRows,
                         .rows = std::min(kPromptPartRows, tile.rows - part * kPromptPartRows),
                         .kv_head = cut.kv_head,
                         .slot = cut.slot + part,
                         .stride = parts,
                         .ranges = cut.ranges});
    }
  }
}

/// Tiles that fit into an even load somewhere stay whole; the others fill the gaps, range by range.
void PromptPlanner::CutTiles(PromptPlanChoices::Cut cut) {
  whole_.clear();
  int64_t sum = 0;
  for (int32_t tile = 0; tile < Narrow<int32_t>(tiles_.size()); ++tile) {
    for (int32_t kv_head = 0; kv_head < limits_.shape.kv_heads; ++kv_head) {
      whole_.push_back(
          {.tile = tile, .kv_head = kv_head, .range = kWhole, .cost = tiles_[tile].cost});
    }
    sum += int64_t{tiles_[tile].cost} * limits_.shape.kv_heads;
  }
  SortByCost(whole_);

  pieces_.clear();
  cut_tiles_.clear();
  int32_t slots = 0;
  const auto level = Narrow<int32_t>(sum / limits_.multiprocessors + 1);
  loads_.assign(limits_.multiprocessors, 0);
  for (const Piece& piece : whole_) {
    const Tile& tile = tiles_[piece.tile];
    const int32_t ranges = CeilDiv(tile.key_end, tile.range);
    const int32_t more_slots = ranges * CeilDiv(tile.rows, kPromptPartRows);
    const bool fits = cut == PromptPlanChoices::Cut::kBalanced && loads_[0] + piece.cost <= level;
    if (fits || ranges == 1 || cut == PromptPlanChoices::Cut::kNone ||
        slots + more_slots > most_.slots) {
      pieces_.push_back(piece);
      loads_[0] += piece.cost;
      SiftDown(loads_);
    } else {
      CutTile(piece.tile, piece.kv_head);
      slots += more_slots;
    }
  }
  SortByCost(pieces_);
}

/// Falling; pieces of the same cost keep their order.
void PromptPlanner::SortByCost(std::vector<Piece>& pieces) {
  const auto key = [](const Piece& piece) { return kMostCost - std::min(piece.cost, kMostCost); };
  starts_.assign(kMostCost + 1, 0);
  for (const Piece& piece : pieces) ++starts_[key(piece)];
  int32_t before = 0;
  for (int32_t& start : starts_) before += std::exchange(start, before);
  sorted_.resize(pieces.size());
  for (const Piece& piece : pieces) sorted_[starts_[key(piece)]++] = piece;
  pieces.swap(sorted_);
}

PromptPlanCounts PromptPlanner::Plan(std::span<const BatchRow> rows, int32_t table_stride,
                                     const PromptPlanChoices& choices) {
  rows_ = rows;
  items_.clear();
  merges_.clear();
  if (std::ranges::all_of(rows, [](const BatchRow& row) { return row.query_len == 1; })) return {};
  ChoosePieces(choices);
  ChooseMergers();
  AddMerges();
  for (const Piece& piece : pieces_) {
    const Tile& tile = tiles_[piece.tile];
    const BatchRow& row = rows[tile.row];
    const int32_t first_range = piece.range == kWhole ? 0 : piece.range;
    const int32_t key_begin = first_range * tile.range;
    PromptItem item{.token_start = row.query_start,
                    .first_position = row.context_len - row.query_len,
                    .first_row = tile.first_row,
                    .rows = tile.rows,
                    .kv_head = piece.kv_head,
                    .table = tile.row * table_stride,
                    .context = row.context_len,
                    .key_begin = key_begin,
                    .key_end = tile.key_end,
                    .range = tile.range,
                    .slot = -1};
    if (piece.range != kWhole) {
      const CutTileOfHead& cut = cut_tiles_[piece.cut];
      const int32_t parts = CeilDiv(tile.rows, kPromptPartRows);
      const int32_t skipped = cut.merged_by_first ? 1 : 0;
      item.key_end = std::min(tile.key_end, key_begin + tile.range);
      item.slot = cut.slot + std::max(0, piece.range - skipped) * parts;
      if (cut.merged_by_first && piece.range == 0) item.awaited = cut.ranges - 1;
    }
    items_.push_back(item);
  }
  const PromptPlanCounts counts{.items = Narrow<int32_t>(items_.size()),
                                .merges = Narrow<int32_t>(merges_.size()),
                                .slots = slots_,
                                .mergers = mergers_};
  DECANT_CHECK(
      counts.items <= most_.items && counts.merges <= most_.merges && counts.slots <= most_.slots,
      "a plan of {} items, {} merges and {} slots", counts.items, counts.merges, counts.slots);
  return counts;
}

}  // namespace decant
