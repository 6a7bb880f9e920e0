#include "sched/chunk_policy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

constexpr int64_t kWarmUp = 2;          // loaded steps that teach nothing: memory is touched first
constexpr int32_t kTooLongInARow = 16;  // loaded steps
constexpr double kSpare = 0.99;         // of the time allowed, beside the margin

/// The largest multiple of the grain up to `most` (one itself) for which `fits` holds, which must
/// hold for all that are smaller; at least the grain.
template <typename Fits>
int32_t LargestChunk(int32_t most, Fits&& fits) {
  int32_t low = 1;
  int32_t high = most / ChunkPolicy::kGrain;
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (fits(middle * ChunkPolicy::kGrain)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * ChunkPolicy::kGrain;
}

}  // namespace

double StepBalance::Reading(const StepLoad& load) const {
  return weights + position * static_cast<double>(load.positions());
}

double StepBalance::Computing(const StepLoad& load) const {
  return token * load.tokens() +
         pair * (load.prompt_pairs + static_cast<double>(load.decode_positions)) +
         logits * load.decode_tokens;
}

Status ValidateChunkPolicy(const ChunkPolicyConfig& config) {
  if (config.most < ChunkPolicy::kGrain || config.most % ChunkPolicy::kGrain != 0) {
    return InvalidArgument("the largest chunk is {}; allowed: multiples of {}", config.most,
                           ChunkPolicy::kGrain);
  }
  const double seconds = config.max_step_seconds.value_or(1);
  if (!(seconds > 0) || !std::isfinite(seconds)) {
    return InvalidArgument("a step may take {} s; allowed: above 0", seconds);
  }
  return {};
}

ChunkPolicy::ChunkPolicy(const ChunkPolicyConfig& config)
    : config_(config), estimate_(config.max_step_seconds.value_or(1)) {
  const Status valid = ValidateChunkPolicy(config);
  DECANT_CHECK(valid.ok(), "{}", valid.ToString());
}

int32_t ChunkPolicy::Choose(const StepOutlook& outlook) {
  const int64_t left = outlook.prompt_tokens_left();
  if (left == 0) return config_.most;
  const auto most =
      Narrow<int32_t>(std::min<int64_t>(config_.most, RoundUp<int64_t>(left, kGrain)));
  const int32_t chunk = config_.max_step_seconds ? Timed(outlook, most) : Balanced(outlook, most);
  if (chunk < left) last_binding_ = chunk;
  return chunk;
}

int32_t ChunkPolicy::Timed(const StepOutlook& outlook, int32_t most) const {
  if (estimate_.empty()) return kGrain;
  const int32_t seen = estimate_.most_prompt_tokens();
  const int32_t reach = std::max(seen + kGrain, seen + seen / 2) / kGrain * kGrain;
  const double allowed = *config_.max_step_seconds * kSpare / estimate_.margin();
  return LargestChunk(std::min(most, reach), [&](int32_t chunk) {
    return estimate_.Seconds(LoadAt(outlook, chunk)) <= allowed;
  });
}

int32_t ChunkPolicy::Balanced(const StepOutlook& outlook, int32_t most) const {
  return LargestChunk(most, [&](int32_t chunk) {
    const StepLoad load = LoadAt(outlook, chunk);
    return config_.balance.Computing(load) <= config_.balance.Reading(load);
  });
}

void ChunkPolicy::Observe(const StepLoad& load, double seconds) {
  if (load.prompt_tokens == 0 || !config_.max_step_seconds || observed_++ < kWarmUp) return;
  estimate_.Add(load, seconds);
  const bool too_long = seconds > *config_.max_step_seconds;
  too_long_ = too_long && load.prompt_tokens <= kGrain ? too_long_ + 1 : 0;
  if (too_long_ >= kTooLongInARow) out_of_reach_ = true;
}

}  // namespace decant
