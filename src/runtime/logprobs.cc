#include "runtime/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace decant {
namespace {

/// The tokens with the largest logits, the logits in place of their logarithms. Inserts into a
/// short sorted list: past the first few hundred logits hardly any belongs there.
std::vector<TokenLogprob> LargestLogits(std::span<const float> logits, size_t count) {
  std::vector<TokenLogprob> largest;
  largest.reserve(count + 1);
  for (size_t i = 0; i < logits.size() && count > 0; ++i) {
    const float logit = logits[i];
    if (std::isnan(logit)) continue;
    if (largest.size() == count && logit <= largest.back().logprob) continue;
    const auto place = std::ranges::find_if(
        largest, [logit](const TokenLogprob& other) { return other.logprob < logit; });
    largest.insert(place, {.token = static_cast<Token>(i), .logprob = logit});
    if (largest.size() > count) largest.pop_back();
  }
  return largest;
}

}  // namespace

PositionLogprobs ComputeLogprobs(std::span<const float> logits, Token chosen, int32_t top) {
  constexpr float kMaxFloat = std::numeric_limits<float>::max();
  double max = -INFINITY;
  for (const float logit : logits) max = logit > max ? logit : max;
  max = std::min<double>(max, kMaxFloat);
  double total = 0;
  for (const float logit : logits) {
    if (logit > -INFINITY) total += std::exp(std::min(logit, kMaxFloat) - max);
  }
  const double log_total = max + std::log(total);
  const auto logprob = [&](float logit) {
    return logit > -INFINITY ? static_cast<float>(std::min(logit, kMaxFloat) - log_total)
                             : -INFINITY;
  };
  PositionLogprobs result{.chosen = {.token = chosen, .logprob = logprob(logits[chosen])},
                          .top = LargestLogits(logits, static_cast<size_t>(top))};
  for (TokenLogprob& entry : result.top) entry.logprob = logprob(entry.logprob);
  return result;
}

}  // namespace decant
