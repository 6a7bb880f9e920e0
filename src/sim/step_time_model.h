#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sched/step_plan.h"

namespace decant {

/// What a step's time depends on: counts of tokens and of cached positions, as a plan has them.
struct StepWork {
  int32_t rows = 0;
  int32_t prompt_rows = 0;    ///< Rows with a prompt chunk.
  int32_t prompt_tokens = 0;  ///< Of all chunks.
  int32_t decode_tokens = 0;
  int32_t longest_prompt_context = 0;  ///< Positions that the furthest chunk reads.
  int64_t prompt_positions = 0;        ///< That chunks have in the cache once the step has run.
  double prompt_pairs = 0;             ///< Pairs of a query and a key, over all chunks.
  int32_t longest_decode_context = 0;  ///< Positions of the longest row that decodes.
  int64_t decode_positions = 0;        ///< Of all rows that decode.
  /// Slots of the longest block table of a row that decodes: what `flash` chooses its splits by.
  int32_t decode_table_slots = 0;

  int32_t tokens() const { return prompt_tokens + decode_tokens; }
};

/// Reads `plan`, whose pages have `page_size` slots.
StepWork WorkOf(const StepPlan& plan, int32_t page_size);

/// A decode kernel as the model knows it; what it is, docs/design.md says.
enum class SimulatedKernel { kRows, kFlash, kSplit };

/// "rows", "flash" or "split". Errors: invalid argument, with the names that there are.
Expected<SimulatedKernel> FindSimulatedKernel(std::string_view name);
std::string_view SimulatedKernelName(SimulatedKernel kernel);

/// A point of the curve of linear layers.
struct LinearPoint {
  int32_t tokens = 0;
  double seconds = 0;
};

/// Attention of decode tokens by one kernel, all layers together. Which terms a kernel has, follows
/// from how it divides its work; the others are 0.
struct DecodeAttentionTime {
  SimulatedKernel kernel = SimulatedKernel::kRows;
  double step_seconds = 0;      ///< Of a step with decode tokens.
  double row_seconds = 0;       ///< For each row: merging and its own start.
  double longest_seconds = 0;   ///< `rows`: for each position of the longest history.
  double slice_seconds = 0;     ///< `flash`: for each position of the longest slice.
  double wave_seconds = 0;      ///< `flash`: the same, for each further wave of slices.
  double position_seconds = 0;  ///< For each cached position of any row: bytes of K and V read.
};

/// How long steps take on a device with a model: `seconds` are of the whole step, all layers.
/// docs/simulation.md has the formula and where each parameter comes from.
struct StepTimeParameters {
  std::string device{};
  std::string model{};
  /// Whether the host plans and launches a step while the device runs the one before.
  bool one_step_in_flight = true;
  double host_seconds = 0;      ///< The host's work of a step: plan, launch, delivery.
  double host_row_seconds = 0;  ///< For each row of it.
  double step_seconds = 0;      ///< On the device, of every step: norms, copies, launches.
  double row_seconds = 0;       ///< For each row: head and sampling.
  double loaded_seconds = 0;    ///< Of a step with prompt chunks.
  /// The linear layers, weights read once, by tokens: straight between the points, level before the
  /// first, going on as between the last two. The first is what reading the weights takes.
  std::vector<LinearPoint> linear{};
  double prompt_seconds = 0;          ///< Attention of a step with prompt chunks.
  double prompt_longest_seconds = 0;  ///< For each position that the furthest chunk reads.
  double prompt_pair_seconds = 0;     ///< For each pair of a query and a key.
  double narrow_page_seconds = 0;     ///< Of a step with decode tokens on pages over 64 slots.
  int64_t pool_slots = 0;             ///< Of the KV cache, where nothing caps it.
  int32_t multiprocessors = 0;        ///< Of the device, for `flash`'s choice of splits.
  int32_t kv_heads = 0;               ///< Of the model, likewise.
  std::vector<DecodeAttentionTime> decode{};  ///< One for each kernel that is known.
};

/// The parts of a step's time, in seconds.
struct StepTime {
  double host = 0;    ///< What the host is busy with.
  double linear = 0;  ///< These are the device's.
  double prompt_attention = 0;
  double decode_attention = 0;
  double rest = 0;

  double device() const { return linear + prompt_attention + decode_attention + rest; }
};

/// The number of slices that the flash kernel cuts each history into, its library's choice:
/// `blocks` are rows times KV heads, `slots` twice the multiprocessors, `key_blocks` pieces of 128
/// keys of the longest block table.
int32_t SimulatedSplits(int32_t blocks, int32_t slots, int32_t key_blocks);

/// Parameters with one of the kernels and a page size.
class StepTimeModel {
 public:
  /// Errors: invalid argument; the parameters lack the kernel (those that they have are named), or
  /// have no linear layers, or a value is negative or no number.
  static Expected<StepTimeModel> Create(const StepTimeParameters& parameters,
                                        SimulatedKernel kernel, int32_t page_size);

  /// A pure function: host data in, seconds out.
  StepTime Of(const StepWork& work) const;

  const StepTimeParameters& parameters() const { return parameters_; }
  int32_t page_size() const { return page_size_; }

 private:
  StepTimeModel(const StepTimeParameters& parameters, const DecodeAttentionTime& decode,
                int32_t page_size)
      : parameters_(parameters), decode_(decode), page_size_(page_size) {}

  double Linear(int32_t tokens) const;
  double DecodeAttention(const StepWork& work) const;

  StepTimeParameters parameters_;
  DecodeAttentionTime decode_;
  int32_t page_size_;
};

/// The positions of the longest slice of a history when flash cuts `work`'s, and how many waves
/// of slices there are.
struct FlashSlices {
  int32_t positions = 0;
  int32_t waves = 0;
};
FlashSlices SlicesOf(const StepWork& work, int32_t multiprocessors, int32_t kv_heads);

}  // namespace decant
