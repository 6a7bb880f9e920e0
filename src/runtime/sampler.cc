#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace decant {
namespace {

constexpr float kMaxFloat = std::numeric_limits<float>::max();

/// -inf where all are NaN.
float Largest(std::span<const float> logits) {
  // Lanes, which the compiler vectorises. NaN never compares greater.
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
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

Token Greedy(std::span<const float> logits) {
  const auto place = std::find(logits.begin(), logits.end(), Largest(logits));
  return place == logits.end() ? 0 : static_cast<Token>(place - logits.begin());
}

}  // namespace

Token Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                      const DrawContext& context) {
  logits = Process(logits, params, context);
  Token token = 0;
  if (params.greedy()) {
    token = Greedy(logits);
  } else {
    ChooseCandidates(logits, params);
    double remaining = CounterRng(params.seed).Uniform(context.sample_index) * TotalWeight();
    for (const Candidate& candidate : candidates_) {
      token = candidate.token;  // the last one, should rounding leave something
      remaining -= candidate.weight;
      if (remaining < 0) break;
    }
  }
  if (params.penalizes()) counts_.AddGenerated(token);
  return token;
}

std::vector<TokenProbability> Sampler::Distribution(std::span<const float> logits,
                                                    const SamplingParams& params,
                                                    const DrawContext& context) {
  logits = Process(logits, params, context);
  if (params.greedy()) return {{.token = Greedy(logits), .probability = 1}};
  ChooseCandidates(logits, params);
  const double total = TotalWeight();
  std::vector<TokenProbability> distribution;
  distribution.reserve(candidates_.size());
  for (const auto& [weight, token] : candidates_) {
    distribution.push_back({.token = token, .probability = weight / total});
  }
  return distribution;
}

/// Larger weights first, smaller ids first among equals.
bool Sampler::MoreLikely(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

/// The logits after ProcessLogits: themselves, where it changes nothing.
std::span<const float> Sampler::Process(std::span<const float> logits, const SamplingParams& params,
                                        const DrawContext& context) {
  if (context.sample_index == 0 && params.penalizes()) counts_.Reset(context.prompt);
  if (!ChangesLogits(params, context.sample_index)) return logits;
  processed_.assign(logits.begin(), logits.end());
  ProcessLogits(params, counts_, context.stop_tokens, context.sample_index, processed_);
  return processed_;
}

/// Fills candidates_ with what temperature, top-k, top-p and min-p leave.
void Sampler::ChooseCandidates(std::span<const float> logits, const SamplingParams& params) {
  candidates_.clear();
  // Bias and penalties may overflow; infinities have no differences.
  const double max = std::min(Largest(logits), kMaxFloat);
  if (max == -INFINITY) {
    candidates_.push_back({.weight = 1, .token = 0});
    return;
  }
  const float threshold = params.top_k > 0 ? KthLargest(logits, params.top_k) : -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] >= threshold)) continue;
    // Differences first: a large logit over a small temperature overflows, their difference only
    // underflows.
    const auto weight =
        static_cast<float>(std::exp((std::min(logits[i], kMaxFloat) - max) / params.temperature));
    if (weight > 0) candidates_.push_back({.weight = weight, .token = static_cast<Token>(i)});
  }
  if (params.top_p < 1) KeepTopP(params.top_p);
  if (params.min_p > 0) {
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params.min_p; });
  }
}

/// The k-th largest logit, k >= 1; -inf where there are fewer than k above it.
float Sampler::KthLargest(std::span<const float> logits, size_t k) {
  float threshold = -INFINITY;
  if (k >= logits.size()) return threshold;
  largest_.clear();
  const auto keep_k = [&] {
    std::ranges::nth_element(largest_, largest_.begin() + static_cast<int64_t>(k) - 1,
                             std::greater<>());
    largest_.resize(k);
    threshold = largest_.back();
  };
  const size_t most = std::max<size_t>(2 * k, 256);
  for (const float logit : logits) {
    if (!(logit > threshold)) continue;
    largest_.push_back(logit);
    if (largest_.size() == most) keep_k();
  }
  if (largest_.size() >= k) keep_k();
  return threshold;
}

/// Keeps the smallest number of most likely candidates whose weights reach top_p of the total.
void Sampler::KeepTopP(float top_p) {
  const double total = TotalWeight();
  const double target = top_p * total;
  // All candidates below the floor weigh less than the rest that top_p leaves out: most of a
  // vocabulary goes at once.
  const double floor = (1.0 - top_p) * total / static_cast<double>(candidates_.size());
  ranked_.clear();
  std::ranges::copy_if(candidates_, std::back_inserter(ranked_),
                       [floor](const Candidate& c) { return c.weight >= floor; });
  // The first `low` candidates by likelihood weigh `kept`, which is too little; the first `high`
  // are enough. Halving what lies between costs a few passes in all, sorting would cost many.
  double kept = 0;
  auto low = ranked_.begin();
  auto high = ranked_.end();
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, MoreLikely);
    const double weight = std::accumulate(
        low, middle, 0.0, [](double sum, const Candidate& c) { return sum + c.weight; });
    if (kept + weight >= target) {
      high = middle;
    } else {
      kept += weight;
      low = middle;
    }
  }
  const Candidate last = *low;
  std::erase_if(candidates_, [&](const Candidate& c) { return MoreLikely(last, c); });
}

double Sampler::TotalWeight() const {
  return std::accumulate(candidates_.begin(), candidates_.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.weight; });
}

}  // namespace decant
