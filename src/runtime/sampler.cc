#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace decant {
namespace {

Token Greedy(std::span<const float> logits) {
  // Lanes find the largest value, which the compiler vectorises; its first place follows. NaN never
  // compares greater.
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::fill(std::begin(lanes), std::end(lanes), -INFINITY);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < logits.size(); ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  const float best = *std::max_element(std::begin(lanes), std::end(lanes));
  const auto place = std::find(logits.begin(), logits.end(), best);
  return place == logits.end() ? 0 : static_cast<Token>(place - logits.begin());
}

/// Larger logits first, smaller ids first among equals.
bool MoreLikely(const std::pair<float, Token>& a, const std::pair<float, Token>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

Token Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                      uint64_t sample_index) {
  if (params.greedy()) return Greedy(logits);
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -INFINITY) candidates_.emplace_back(logits[i], static_cast<Token>(i));
  }
  if (candidates_.empty()) return 0;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + params.top_k, candidates_.end(),
                     MoreLikely);
    candidates_.resize(params.top_k);
  }
  std::sort(candidates_.begin(), candidates_.end(), MoreLikely);
  weights_.clear();
  double total = 0;
  for (const auto& [logit, token] : candidates_) {
    // Differences first: a large logit over a small temperature overflows, their difference only
    // underflows.
    weights_.push_back(
        std::exp((static_cast<double>(logit) - candidates_.front().first) / params.temperature));
    total += weights_.back();
  }
  double kept = 0;
  size_t count = 0;
  while (count < weights_.size() && (count == 0 || kept < params.top_p * total)) {
    kept += weights_[count++];
  }
  double remaining = CounterRng(params.seed).Uniform(sample_index) * kept;
  for (size_t i = 0; i < count; ++i) {
    remaining -= weights_[i];
    if (remaining < 0) return candidates_[i].second;
  }
  return candidates_[count - 1].second;
}

}  // namespace decant
