#include "runtime/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace decant {
namespace {

TEST(LogprobsTest, AreTheLogSoftmaxMostLikelyFirst) {
  constexpr Token kVocab = 5000;
  std::vector<float> logits(kVocab);
  double total = 0;
  for (Token i = 0; i < kVocab; ++i) {
    // Few values, so that there are equals at every cut.
    logits[i] = static_cast<float>(CounterRng(3).Below(i, 64)) / 4;
    total += std::exp(static_cast<double>(logits[i]));
  }
  std::vector<Token> order(kVocab);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](Token a, Token b) { return logits[a] > logits[b]; });
  for (const int32_t top : {0, 1, 7, 20}) {
    const PositionLogprobs result = ComputeLogprobs(logits, 123, top);
    EXPECT_EQ(result.chosen.token, 123);
    EXPECT_NEAR(result.chosen.logprob, logits[123] - std::log(total), 1e-6);
    ASSERT_EQ(result.top.size(), static_cast<size_t>(top));
    for (int32_t i = 0; i < top; ++i) {
      EXPECT_EQ(result.top[i].token, order[i]);
      EXPECT_NEAR(result.top[i].logprob, logits[order[i]] - std::log(total), 1e-6);
    }
  }
}

TEST(LogprobsTest, HugeMissingAndNaNLogitsGiveNoNaN) {
  const std::vector<float> logits = {3e38F, -INFINITY, std::nanf(""), 2e38F, INFINITY};
  const PositionLogprobs result = ComputeLogprobs(logits, 2, 20);
  EXPECT_EQ(result.chosen.logprob, -INFINITY);
  ASSERT_EQ(result.top.size(), 4U);
  EXPECT_EQ(result.top[0].token, 4);
  EXPECT_EQ(result.top[0].logprob, 0);
  EXPECT_EQ(result.top[3].token, 1);
  EXPECT_EQ(result.top[3].logprob, -INFINITY);
  const PositionLogprobs nothing = ComputeLogprobs(std::vector<float>(3, -INFINITY), 0, 2);
  EXPECT_EQ(nothing.chosen.logprob, -INFINITY);
  EXPECT_EQ(nothing.top[0].logprob, -INFINITY);
}

}  // namespace
}  // namespace decant
