#include "sim/step_time_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/narrow.h"

namespace decant {
namespace {

constexpr std::array kKernelNames = {std::pair(SimulatedKernel::kRows, std::string_view("rows")),
                                     std::pair(SimulatedKernel::kFlash, std::string_view("flash")),
                                     std::pair(SimulatedKernel::kSplit, std::string_view("split"))};
constexpr int32_t kKeyBlock = 128;  // keys of a piece, at a head_dim of 128
constexpr int32_t kMostSplits = 128;
constexpr int32_t kWidePage = 256;

/// The comparison is written so that NaN fails it.
bool IsTime(double seconds) { return seconds >= 0 && seconds < 1e6; }

}  // namespace

Expected<SimulatedKernel> FindSimulatedKernel(std::string_view name) {
  for (const auto& [kernel, kernel_name] : kKernelNames) {
    if (name == kernel_name) return kernel;
  }
  return InvalidArgument("the decode kernel is '{}'; allowed: rows, flash, split", name);
}

std::string_view SimulatedKernelName(SimulatedKernel kernel) {
  return kKernelNames[static_cast<size_t>(kernel)].second;
}

StepWork WorkOf(const StepPlan& plan, int32_t page_size) {
  StepWork work{.rows = static_cast<int32_t>(plan.rows.size()),
                .prompt_tokens = plan.prompt_tokens,
                .decode_tokens = plan.decode_tokens};
  size_t longest_table = 0;
  for (const PlannedRow& row : plan.rows) {
    if (row.prompt_tokens.empty()) {
      work.decode_positions += row.context_len;
      work.longest_decode_context = std::max(work.longest_decode_context, row.context_len);
      longest_table = std::max(longest_table, row.pages.size());
    } else {
      ++work.prompt_rows;
      work.longest_prompt_context = std::max(work.longest_prompt_context, row.context_len);
      work.prompt_positions += row.context_len;
      // Query i of the chunk reads all positions up to its own.
      work.prompt_pairs += row.query_len * (row.context_len - (row.query_len - 1) / 2.0);
    }
  }
  work.decode_table_slots = static_cast<int32_t>(longest_table) * page_size;
  return work;
}

int32_t SimulatedSplits(int32_t blocks, int32_t slots, int32_t key_blocks) {
  if (blocks >= 0.8 * slots) return 1;
  const int32_t most = std::min({kMostSplits, slots, key_blocks});
  // How busy the slots are with each number of splits; 0 where it leaves the largest slice as one
  // split fewer does.
  std::array<double, kMostSplits + 1> busy{};
  double best = 0;
  int32_t largest = 0;
  for (int32_t splits = 1; splits <= most; ++splits) {
    const int32_t slice = CeilDiv(key_blocks, splits);
    if (std::exchange(largest, slice) == slice) continue;
    const int32_t waves = CeilDiv(blocks * splits, slots);
    busy[splits] = static_cast<double>(blocks * splits) / (waves * slots);
    best = std::max(best, busy[splits]);
  }
  for (int32_t splits = 1; splits <= most; ++splits) {
    if (busy[splits] > 0 && busy[splits] >= 0.85 * best) return splits;
  }
  return 1;
}

FlashSlices SlicesOf(const StepWork& work, int32_t multiprocessors, int32_t kv_heads) {
  const int32_t slots = 2 * multiprocessors;
  const int32_t blocks = work.decode_tokens * kv_heads;
  const int32_t key_blocks = CeilDiv(work.decode_table_slots, kKeyBlock);
  const int32_t splits = SimulatedSplits(blocks, slots, key_blocks);
  const int32_t slice = CeilDiv(key_blocks, splits) * kKeyBlock;
  return {.positions = std::min(slice, work.longest_decode_context),
          .waves = CeilDiv(blocks * splits, slots)};
}

Expected<StepTimeModel> StepTimeModel::Create(const StepTimeParameters& parameters,
                                              SimulatedKernel kernel, int32_t page_size) {
  if (parameters.linear.empty()) {
    return InvalidArgument("{}: no point of linear layers", parameters.device);
  }
  for (size_t i = 0; i < parameters.linear.size(); ++i) {
    const LinearPoint& point = parameters.linear[i];
    if (!IsTime(point.seconds) || point.tokens < 1 ||
        (i > 0 && point.tokens <= parameters.linear[i - 1].tokens)) {
      return InvalidArgument(
          "{}: point {} of linear layers is {} s at {} tokens; allowed: rising tokens from 1 on, "
          "times of at least 0",
          parameters.device, i, point.seconds, point.tokens);
    }
  }
  const auto found = std::ranges::find(parameters.decode, kernel, &DecodeAttentionTime::kernel);
  if (found == parameters.decode.end()) {
    std::vector<std::string_view> names;
    names.reserve(parameters.decode.size());
    for (const auto& decode : parameters.decode)
      names.push_back(SimulatedKernelName(decode.kernel));
    return InvalidArgument("{} has no times of decode kernel {}; it has: {}", parameters.device,
                           SimulatedKernelName(kernel), fmt::join(names, ", "));
  }
  if (kernel == SimulatedKernel::kFlash &&
      (parameters.multiprocessors < 1 || parameters.kv_heads < 1)) {
    return InvalidArgument("{}: flash needs multiprocessors and kv_heads of at least 1",
                           parameters.device);
  }
  for (const double seconds :
       {parameters.host_seconds, parameters.host_row_seconds, parameters.step_seconds,
        parameters.row_seconds, parameters.loaded_seconds, parameters.prompt_seconds,
        parameters.prompt_longest_seconds, parameters.prompt_pair_seconds,
        parameters.narrow_page_seconds, found->step_seconds, found->row_seconds,
        found->longest_seconds, found->slice_seconds, found->wave_seconds,
        found->position_seconds}) {
    if (!IsTime(seconds)) {
      return InvalidArgument("{}: a time is {} s; allowed: at least 0", parameters.device, seconds);
    }
  }
  return StepTimeModel(parameters, *found, page_size);
}

double StepTimeModel::Linear(int32_t tokens) const {
  const std::vector<LinearPoint>& points = parameters_.linear;
  if (tokens <= points.front().tokens || points.size() == 1) return points.front().seconds;
  size_t right = 1;
  while (right + 1 < points.size() && points[right].tokens < tokens) ++right;
  const LinearPoint& a = points[right - 1];
  const LinearPoint& b = points[right];
  return a.seconds + (b.seconds - a.seconds) * (tokens - a.tokens) / (b.tokens - a.tokens);
}

double StepTimeModel::DecodeAttention(const StepWork& work) const {
  if (work.decode_tokens == 0) return 0;
  double seconds = decode_.step_seconds + decode_.row_seconds * work.decode_tokens +
                   decode_.longest_seconds * work.longest_decode_context +
                   decode_.position_seconds * static_cast<double>(work.decode_positions);
  if (decode_.kernel == SimulatedKernel::kFlash) {
    const FlashSlices slices = SlicesOf(work, parameters_.multiprocessors, parameters_.kv_heads);
    seconds +=
        slices.positions * (decode_.slice_seconds + decode_.wave_seconds * (slices.waves - 1));
  }
  return seconds;
}

StepTime StepTimeModel::Of(const StepWork& work) const {
  StepTime time{.host = parameters_.host_seconds + parameters_.host_row_seconds * work.rows,
                .linear = Linear(work.tokens()),
                .decode_attention = DecodeAttention(work),
                .rest = parameters_.step_seconds + parameters_.row_seconds * work.rows};
  if (work.decode_tokens > 0 && page_size_ < kWidePage) {
    time.rest += parameters_.narrow_page_seconds;
  }
  if (work.prompt_tokens > 0) {
    time.rest += parameters_.loaded_seconds;
    time.prompt_attention = parameters_.prompt_seconds +
                            parameters_.prompt_longest_seconds * work.longest_prompt_context +
                            parameters_.prompt_pair_seconds * work.prompt_pairs;
  }
  return time;
}

}  // namespace decant
