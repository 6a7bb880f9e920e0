#include "ops/cuda/step_upload.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "ops/cuda/prompt_attention.h"
#include "ops/cuda/step_copies.h"

namespace decant {
namespace {

template <typename T>
constexpr int64_t kInts = sizeof(T) / sizeof(int32_t);

/// Takes pieces of a buffer one after another, each on 16 bytes.
class Packer {
 public:
  Packer(int32_t* host, const int32_t* device, int64_t capacity)
      : host_(host), device_(device), capacity_(capacity) {}

  /// Room for `count` numbers of the `most` that there may be; where they will lie on the device
  /// goes to `device`.
  std::span<int32_t> Take(int64_t count, int64_t most, const int32_t*& device) {
    DECANT_CHECK(count <= most && used_ + count <= capacity_, "a step's upload of over {} bytes",
                 capacity_ * 4);
    const std::span<int32_t> room(host_ + used_, count);
    device = device_ + used_;
    used_ += (most + 3) / 4 * 4;
    return room;
  }
  /// Packs `values`; where they will lie on the device goes to `device`.
  template <typename T>
  void Copy(std::span<const T> values, const T*& device) {
    const int32_t* numbers = nullptr;
    const int64_t count = std::ssize(values) * kInts<T>;
    const std::span<int32_t> room = Take(count, count, numbers);
    if (!values.empty()) std::memcpy(room.data(), values.data(), values.size_bytes());
    device = reinterpret_cast<const T*>(numbers);
  }
  int64_t used() const { return used_; }

 private:
  int32_t* host_;
  const int32_t* device_;
  int64_t capacity_;
  int64_t used_ = 0;
};

}  // namespace

Expected<StepUpload> StepUpload::Create(const StepLimits& limits) {
  StepUpload upload;
  upload.limits_ = limits;
  const int64_t tiles = int64_t{PromptTiles(limits.tokens, limits.group)} + limits.rows;
  upload.capacity_ = int64_t{3} * limits.tokens + int64_t{4} * limits.rows + 2 * tiles +
                     int64_t{limits.rows} * (limits.pages_per_row + kSpareEntries) + 64 +
                     limits.prompt_plan.items * kInts<PromptItem> +
                     limits.prompt_plan.merges * kInts<PromptMerge>;
  const auto bytes = static_cast<size_t>(upload.capacity_) * sizeof(int32_t);
  for (Slot& slot : upload.slots_) {
    DECANT_ASSIGN_OR_RETURN(slot.host, PinnedBuffer::Allocate(bytes, "a step's upload"));
    DECANT_ASSIGN_OR_RETURN(slot.copied, CudaEvent::Create());
  }
  DECANT_ASSIGN_OR_RETURN(upload.device_, DeviceBuffer::Allocate(bytes, "a step's upload"));
  return upload;
}

Expected<StepArrays> StepUpload::Send(const StepBatch& batch, PromptPlanner* planner,
                                      const CudaStream& stream, bool few_strides) {
  turn_ = 1 - turn_;
  Slot& slot = slots_[turn_];
  if (slot.used) DECANT_RETURN_IF_ERROR(slot.copied.Wait());

  StepArrays step;
  step.tokens = batch.tokens();
  step.rows = static_cast<int32_t>(batch.rows.size());
  for (const BatchRow& row : batch.rows) {
    DECANT_CHECK(row.query_len > 1 || step.decode_rows == row.query_start,
                 "decode rows must come first");
    if (row.query_len == 1) ++step.decode_rows;
    step.table_stride = std::max(step.table_stride, static_cast<int32_t>(row.pages.size()));
  }
  if (few_strides) {
    const auto rounded =
        static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(step.table_stride)));
    step.table_stride = std::max(step.table_stride, std::min(rounded, limits_.pages_per_row));
  }

  Packer packer(slot.host.As<int32_t>(), device_.As<int32_t>(), capacity_);
  const auto take_tokens = [&](const int32_t*& device) {
    return packer.Take(step.tokens, limits_.tokens, device);
  };
  const auto take_rows = [&](const int32_t*& device) {
    return packer.Take(step.rows, limits_.rows, device);
  };
  std::ranges::copy(batch.token_ids, take_tokens(step.token_ids).begin());
  std::ranges::copy(batch.positions, take_tokens(step.positions).begin());
  std::ranges::copy(batch.token_rows, take_tokens(step.token_rows).begin());
  const std::span<int32_t> starts = take_rows(step.query_starts);
  const std::span<int32_t> lens = take_rows(step.query_lens);
  const std::span<int32_t> contexts = take_rows(step.context_lens);
  const std::span<int32_t> places = take_rows(step.row_slots);
  const int64_t table_entries = int64_t{step.rows} * step.table_stride;
  const std::span<int32_t> tables = packer.Take(table_entries, table_entries, step.block_tables);
  for (int32_t r = 0; r < step.rows; ++r) {
    const BatchRow& row = batch.rows[r];
    starts[r] = row.query_start;
    lens[r] = row.query_len;
    contexts[r] = row.context_len;
    places[r] = row.slot;
    const std::span<int32_t> table =
        tables.subspan(int64_t{r} * step.table_stride, step.table_stride);
    const auto rest = std::ranges::copy(row.pages, table.begin()).out;
    std::fill(rest, table.end(), kNoPage);
    if (row.query_len > 1) step.prompt_tiles += PromptTiles(row.query_len, limits_.group);
  }
  const int64_t tile_entries = int64_t{2} * step.prompt_tiles;
  const std::span<int32_t> tiles = packer.Take(tile_entries, tile_entries, step.prompt_tiles_at);
  size_t next = 0;
  for (int32_t r = 0; r < step.rows; ++r) {
    if (batch.rows[r].query_len == 1) continue;
    for (int32_t tile = 0; tile < PromptTiles(batch.rows[r].query_len, limits_.group); ++tile) {
      tiles[next++] = r;
      tiles[next++] = tile * kPromptTileRows;
    }
  }

  if (planner != nullptr) {
    step.prompt_plan = planner->Plan(batch.rows, step.table_stride);
    packer.Copy(planner->items(), step.prompt_items);
    packer.Copy(planner->merges(), step.prompt_merges);
  }

  DECANT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(device_.data(), slot.host.data(),
                                 static_cast<size_t>(packer.used()) * sizeof(int32_t),
                                 cudaMemcpyHostToDevice, stream.get()),
                 "uploading a step"));
  DECANT_RETURN_IF_ERROR(slot.copied.Record(stream));
  slot.used = true;
  return step;
}

}  // namespace decant
