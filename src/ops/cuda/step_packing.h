#pragma once

#include <cstdint>
#include <span>

#include "ops/cuda/prompt_plan.h"
#include "ops/cuda/step_arrays.h"
#include "ops/cuda/step_copies.h"
#include "ops/step_batch.h"

namespace decant {

/// Entries that a block table may have past the pages of the longest row: gates put poison there.
inline constexpr int32_t kSpareEntries = 2;

/// What a step may be.
struct StepLimits {
  int32_t tokens = 0;
  int32_t rows = 0;
  int32_t pages_per_row = 0;
  int32_t group = 1;               ///< query heads a KV head
  PromptPlanCounts prompt_plan{};  ///< Most of a plan for the ranged prompt kernel.
};

/// How much steps differ in what their kernels are launched with.
enum class StepShape {
  kExact,    ///< The step's own tokens, block tables as long as its longest.
  kRounded,  ///< Few numbers of tokens (PaddedTokens), one stride for all block tables.
};

/// The number of tokens that a step of `tokens` is padded to: 1, 2, 4, then multiples of 8 up to
/// 64, of 32 up to 1,024, of 128 beyond, but not over `most`, which is at least `tokens`.
int32_t PaddedTokens(int32_t tokens, int32_t most);

/// Packs steps' batches: everything that the kernels of a step need, as words one after another in
/// host memory, and where they go on the device. There all steps' arrays lie at the same places, so
/// that a graph of one step's kernels serves the next. Host code; one thread at a time.
class StepPacker {
 public:
  explicit StepPacker(const StepLimits& limits);

  /// Words that a step takes at most: packed, and on the device.
  int64_t host_words() const { return host_words_; }
  int64_t device_words() const { return device_words_; }

  /// Packs `batch` into `host` [host_words]; returns its arrays as they will lie from `device`
  /// [device_words] on, once copies() are done. Rows of query length 1 must come first. With a
  /// planner, also plans the step for the ranged prompt kernel; the tiles of the other one are
  /// packed too, since a gate may exchange the kernels of a step that has begun.
  StepArrays Pack(const StepBatch& batch, PromptPlanner* planner, StepShape shape,
                  const GraphDraws& draws, std::span<int32_t> host, const int32_t* device);
  /// Of the step packed last.
  const StepCopies& copies() const { return copies_; }

 private:
  std::span<int32_t> Take(int32_t count, int32_t most, const int32_t*& device);
  template <typename T>
  void Copy(std::span<const T> values, int32_t most, const T*& device);
  void PackTokens(const StepBatch& batch, StepArrays& step);
  void PackRows(const StepBatch& batch, StepArrays& step);
  void PackTables(const StepBatch& batch, StepArrays& step);
  void PackPromptTiles(const StepBatch& batch, StepArrays& step);

  StepLimits limits_;
  int32_t rounded_stride_ = 0;
  int64_t host_words_ = 0;
  int64_t device_words_ = 0;

  // Of the step that is packed.
  std::span<int32_t> host_;
  const int32_t* device_ = nullptr;
  int32_t host_used_ = 0;
  int32_t device_used_ = 0;
  StepCopies copies_;
};

}  // namespace decant
