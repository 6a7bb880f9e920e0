#include "ops/cuda/step_packing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/narrow.h"
#include "ops/cuda/prompt_tiles.h"

namespace decant {
namespace {

/// Arrays begin on 16 bytes.
constexpr int32_t kAlignment = 4;

template <typename T>
constexpr int32_t kWords = sizeof(T) / sizeof(int32_t);

}  // namespace

int32_t PaddedTokens(int32_t tokens, int32_t most) {
  constexpr int32_t kFew = 4;
  if (tokens <= kFew) {
    return std::min(static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(tokens))), most);
  }
  const int32_t step = tokens <= 64 ? 8 : tokens <= 1024 ? 32 : 128;
  return std::min(RoundUp(tokens, step), most);
}

StepPacker::StepPacker(const StepLimits& limits)
    : limits_(limits), rounded_stride_(limits.pages_per_row + kSpareEntries) {
  const int64_t tiles = int64_t{PromptTiles(limits.tokens, limits.group)} + limits.rows;
  const int64_t words = int64_t{3} * limits.tokens + int64_t{4} * limits.rows + 2 * tiles +
                        int64_t{limits.prompt_plan.items} * kWords<PromptItem> +
                        int64_t{limits.prompt_plan.merges} * kWords<PromptMerge> +
                        kWords<PromptPlanCounts> + kWords<StepCounts> +
                        int64_t{limits.rows} * rounded_stride_;
  // Each array, and the tables, may be rounded up.
  host_words_ = words + int64_t{kAlignment} * (StepCopies::kMostPieces + 1);
  device_words_ = host_words_;
}

/// Room for `count` words of the `most` that there may be; where they will lie on the device goes
/// to `device`.
std::span<int32_t> StepPacker::Take(int32_t count, int32_t most, const int32_t*& device) {
  DECANT_CHECK(count <= most && host_used_ + count <= std::ssize(host_) &&
                   device_used_ + most <= device_words_,
               "a step's upload of over {} bytes", host_words_ * 4);
  const std::span<int32_t> room = host_.subspan(host_used_, count);
  device = device_ + device_used_;
  if (count > 0) {
    DECANT_CHECK(copies_.piece_count < StepCopies::kMostPieces, "a step of over {} arrays",
                 StepCopies::kMostPieces);
    copies_.pieces[copies_.piece_count++] = {
        .from = host_used_, .to = device_used_, .count = count};
    copies_.piece_words += count;
  }
  host_used_ += RoundUp(count, kAlignment);
  device_used_ += RoundUp(most, kAlignment);
  return room;
}

/// Packs `values`, of which there are `most` at most.
template <typename T>
void StepPacker::Copy(std::span<const T> values, int32_t most, const T*& device) {
  const int32_t* words = nullptr;
  const std::span<int32_t> room =
      Take(Narrow<int32_t>(std::ssize(values)) * kWords<T>, most * kWords<T>, words);
  if (!values.empty()) std::memcpy(room.data(), values.data(), values.size_bytes());
  device = reinterpret_cast<const T*>(words);
}

void StepPacker::PackTokens(const StepBatch& batch, StepArrays& step) {
  const auto pack = [&](std::span<const int32_t> values, int32_t padding, const int32_t*& device) {
    const std::span<int32_t> room = Take(step.tokens, limits_.tokens, device);
    const auto rest = std::ranges::copy(values, room.begin()).out;
    std::fill(rest, room.end(), padding);
  };
  pack(batch.token_ids, 0, step.token_ids);
  pack(batch.positions, 0, step.positions);
  pack(batch.token_rows, kNoRow, step.token_rows);
}

void StepPacker::PackRows(const StepBatch& batch, StepArrays& step) {
  const auto take = [&](const int32_t*& device) { return Take(step.rows, limits_.rows, device); };
  const std::span<int32_t> starts = take(step.query_starts);
  const std::span<int32_t> lens = take(step.query_lens);
  const std::span<int32_t> contexts = take(step.context_lens);
  const std::span<int32_t> places = take(step.row_slots);
  for (int32_t r = 0; r < step.rows; ++r) {
    const BatchRow& row = batch.rows[r];
    starts[r] = row.query_start;
    lens[r] = row.query_len;
    contexts[r] = row.context_len;
    places[r] = row.slot;
  }
}

/// The tables are last on the device, where only their stride decides where they end.
void StepPacker::PackTables(const StepBatch& batch, StepArrays& step) {
  const int32_t longest = copies_.packed_stride;
  const int64_t packed = int64_t{step.rows} * longest;
  DECANT_CHECK(host_used_ + packed <= std::ssize(host_) &&
                   device_used_ + int64_t{step.rows} * step.table_stride <= device_words_,
               "block tables of {} entries for {} rows", step.table_stride, step.rows);
  int32_t* table = host_.data() + host_used_;
  for (const BatchRow& row : batch.rows) {
    int32_t* const rest = std::ranges::copy(row.pages, table).out;
    table += longest;
    std::fill(rest, table, kNoPage);
  }
  step.block_tables = device_ + device_used_;
  copies_.tables_from = host_used_;
  copies_.tables_to = device_used_;
  copies_.table_rows = step.rows;
  copies_.table_stride = step.table_stride;
}

void StepPacker::PackPromptTiles(const StepBatch& batch, StepArrays& step) {
  for (const BatchRow& row : batch.rows) {
    if (row.query_len > 1) step.prompt_tiles += PromptTiles(row.query_len, limits_.group);
  }
  const int32_t most = 2 * (PromptTiles(limits_.tokens, limits_.group) + limits_.rows);
  const std::span<int32_t> tiles = Take(2 * step.prompt_tiles, most, step.prompt_tiles_at);
  size_t next = 0;
  for (int32_t r = 0; r < step.rows; ++r) {
    const int32_t query_len = batch.rows[r].query_len;
    if (query_len == 1) continue;
    for (int32_t tile = 0; tile < PromptTiles(query_len, limits_.group); ++tile) {
      tiles[next++] = r;
      tiles[next++] = tile * kPromptTileRows;
    }
  }
}

StepArrays StepPacker::Pack(const StepBatch& batch, PromptPlanner* planner, StepShape shape,
                            const GraphDraws& draws, std::span<int32_t> host,
                            const int32_t* device) {
  host_ = host;
  device_ = device;
  host_used_ = 0;
  device_used_ = 0;
  copies_ = {};

  StepArrays step;
  step.tokens = batch.tokens();
  step.rows = Narrow<int32_t>(std::ssize(batch.rows));
  for (const BatchRow& row : batch.rows) {
    DECANT_CHECK(row.query_len > 1 || step.decode_rows == row.query_start,
                 "decode rows must come first");
    if (row.query_len == 1) ++step.decode_rows;
    copies_.packed_stride = std::max(copies_.packed_stride, Narrow<int32_t>(std::ssize(row.pages)));
  }
  step.table_stride = copies_.packed_stride;
  if (shape == StepShape::kRounded) {
    step.tokens = PaddedTokens(step.tokens, limits_.tokens);
    step.table_stride = std::max(step.table_stride, rounded_stride_);
  }
  PackTokens(batch, step);
  PackRows(batch, step);
  const StepCounts counts{.decode_rows = step.decode_rows, .draws = draws};
  Copy(std::span<const StepCounts>(&counts, 1), 1, step.counts);
  PackPromptTiles(batch, step);
  if (planner != nullptr) {
    step.prompt_plan = planner->Plan(batch.rows, step.table_stride);
    Copy(planner->items(), limits_.prompt_plan.items, step.prompt_items);
    Copy(planner->merges(), limits_.prompt_plan.merges, step.prompt_merges);
    Copy(std::span<const PromptPlanCounts>(&step.prompt_plan, 1), 1, step.prompt_counts);
  }
  PackTables(batch, step);
  return step;
}

}  // namespace decant
