#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace decant {
namespace {

/// Draws from the same logits again and again, and checks by Pearson's chi-square that the tokens
/// follow `expected`.
void ExpectDraws(const std::vector<float>& logits, const SamplingParams& params,
                 const std::vector<TokenProbability>& expected) {
  constexpr int kDraws = 20000;
  Sampler sampler;
  std::vector<int> counts(logits.size());
  for (uint64_t i = 0; i < kDraws; ++i) {
    ++counts[sampler.Sample(logits, params, {.sample_index = i})];
  }
  double chi_square = 0;
  int rest_count = kDraws;  // of the tokens that are too rare to be judged alone
  double rest = 1;
  int bins = 0;
  for (const auto& [token, probability] : expected) {
    const double wanted = probability * kDraws;
    if (wanted < 10) continue;
    chi_square += (counts[token] - wanted) * (counts[token] - wanted) / wanted;
    rest_count -= counts[token];
    rest -= probability;
    ++bins;
  }
  if (rest * kDraws >= 10) {
    chi_square += std::pow(rest_count - rest * kDraws, 2) / (rest * kDraws);
    ++bins;
  } else {
    EXPECT_LE(rest_count, 40);
  }
  // Mean and variance of the chi-square distribution are its degrees of freedom and twice that.
  const int freedom = std::max(1, bins - 1);
  EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2.0 * freedom)) << bins << " bins";
}

std::vector<Token> Kept(const std::vector<float>& logits, const SamplingParams& params,
                        const DrawContext& context = {}) {
  std::vector<Token> tokens;
  for (const TokenProbability& entry : Sampler().Distribution(logits, params, context)) {
    tokens.push_back(entry.token);
  }
  return tokens;
}

using Tokens = std::vector<Token>;

TEST(SamplerTest, GreedyTakesTheFirstOfTheLargest) {
  Sampler sampler;
  std::vector<float> logits(1000, -1.0F);
  logits[17] = 3.0F;
  logits[900] = 3.0F;
  EXPECT_EQ(sampler.Sample(logits, {}, {}), 17);
  logits[999] = 4.0F;
  EXPECT_EQ(sampler.Sample(logits, {}, {}), 999);
  logits[3] = std::nanf("");
  EXPECT_EQ(sampler.Sample(logits, {}, {}), 999);
  EXPECT_EQ(sampler.Sample(std::vector<float>(50, std::nanf("")), {}, {}), 0);
  EXPECT_EQ(sampler.Sample(std::vector<float>(50, -INFINITY), {.temperature = 1}, {}), 0);
}

TEST(SamplerTest, DrawsFollowTheSoftmaxOfLogitsOverTemperature) {
  const std::vector<float> logits = {1.0F, 2.0F, 0.0F, 3.0F};
  for (float temperature : {0.5F, 1.0F, 2.0F}) {
    double total = 0;
    for (float logit : logits) total += std::exp(logit / temperature);
    std::vector<TokenProbability> expected;
    expected.reserve(logits.size());
    for (Token i = 0; i < 4; ++i)
      expected.push_back({i, std::exp(logits[i] / temperature) / total});
    ExpectDraws(logits, {.temperature = temperature, .seed = 5}, expected);
  }
}

TEST(SamplerTest, DrawsFollowTheDistribution) {
  std::vector<float> logits(500);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 12 * static_cast<float>(CounterRng(8).Uniform(i));
  }
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 1, .seed = 1},
        SamplingParams{.temperature = 0.7F, .top_k = 50},
        SamplingParams{.temperature = 1, .top_p = 0.9F, .seed = 2},
        SamplingParams{.temperature = 1.5F, .top_k = 300, .top_p = 0.8F, .min_p = 0.05F}}) {
    ExpectDraws(logits, params, Sampler().Distribution(logits, params, {}));
  }
}

TEST(SamplerTest, TopKAndTopPCutTheTail) {
  // Probabilities 0.5, 0.25, 0.15, 0.1.
  const std::vector<float> logits = {std::log(0.15F), std::log(0.5F), std::log(0.1F),
                                     std::log(0.25F)};
  EXPECT_EQ(Kept(logits, {.temperature = 1, .top_k = 1}), Tokens({1}));
  EXPECT_EQ(Kept(logits, {.temperature = 1, .top_k = 3}), Tokens({0, 1, 3}));
  EXPECT_EQ(Kept(logits, {.temperature = 1, .top_p = 0.4F}), Tokens({1}));
  EXPECT_EQ(Kept(logits, {.temperature = 1, .top_p = 0.7F}), Tokens({1, 3}));
  EXPECT_EQ(Kept(logits, {.temperature = 1, .top_p = 1.0F}), Tokens({0, 1, 2, 3}));
  // Top-k first: of the two left, 0.5 / 0.75 alone reaches 0.6.
  EXPECT_EQ(Kept(logits, {.temperature = 1, .top_k = 2, .top_p = 0.6F}), Tokens({1}));
  // Equals of the last one that top-k keeps stay too; of equals, top-p takes the first.
  const std::vector<float> equals = {1, 2, 1, 3, 1, 0};
  EXPECT_EQ(Kept(equals, {.temperature = 1, .top_k = 3}), Tokens({0, 1, 2, 3, 4}));
  EXPECT_EQ(Kept(std::vector<float>(10, 1.0F), {.temperature = 1, .top_p = 0.35F}),
            Tokens({0, 1, 2, 3}));
}

/// What a full sort keeps.
Tokens KeptBySorting(const std::vector<float>& logits, const SamplingParams& params) {
  Tokens order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Token>(i);
  std::ranges::stable_sort(order, [&](Token a, Token b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) {
    const float last = logits[order[params.top_k - 1]];
    std::erase_if(order, [&](Token token) { return logits[token] < last; });
  }
  const auto weight = [&](Token token) {
    return std::exp((logits[token] - double{logits[order.front()]}) / params.temperature);
  };
  double total = 0;
  for (const Token token : order) total += weight(token);
  size_t count = 0;
  for (double kept = 0; count < order.size() && kept < params.top_p * total; ++count) {
    kept += weight(order[count]);
  }
  order.resize(count);
  std::erase_if(order, [&](Token token) { return weight(token) < params.min_p; });
  std::ranges::sort(order);
  return order;
}

TEST(SamplerTest, PartialSelectionKeepsWhatSortingKeeps) {
  for (const uint64_t seed : {1, 2, 3}) {
    std::vector<float> logits(3001);
    for (size_t i = 0; i < logits.size(); ++i) {
      // In steps, so that equals meet every cut.
      logits[i] = static_cast<float>(CounterRng(seed).Below(i, 100)) / 8;
    }
    for (const int32_t top_k : {0, 1, 5, 127, 128, 200, 3000}) {
      for (const float top_p : {0.01F, 0.31F, 0.77F, 0.953F, 1.0F}) {
        for (const float min_p : {0.0F, 0.123F}) {
          const SamplingParams params{
              .temperature = 0.9F, .top_k = top_k, .top_p = top_p, .min_p = min_p};
          EXPECT_EQ(Kept(logits, params), KeptBySorting(logits, params))
              << top_k << " " << top_p << " " << min_p;
        }
      }
    }
  }
}

TEST(SamplerTest, PenaltiesRememberTheRequestAndForgetItWithTheNext) {
  const std::vector<float> logits = {4.0F, 3.5F, 3.0F, -1.0F};
  Sampler sampler;
  const auto draw = [&](const SamplingParams& params, Tokens prompt, int count) {
    Tokens tokens;
    for (int i = 0; i < count; ++i) {
      tokens.push_back(sampler.Sample(
          logits, params, {.sample_index = static_cast<uint64_t>(i), .prompt = prompt}));
    }
    return tokens;
  };
  for (int repeat = 0; repeat < 2; ++repeat) {
    // 4, 3.5, 3 lose 0.4 with each use: 0 (3.6), 0 (3.2), 1 (3.1), 0 (2.8), 1 (2.7), 2 (2.6), 0.
    EXPECT_EQ(draw({.frequency_penalty = 0.4F}, {0, 0, 0, 0}, 7), Tokens({0, 0, 1, 0, 1, 2, 0}));
    // Used once they lose 1.1 for good.
    EXPECT_EQ(draw({.presence_penalty = 1.1F}, {0, 0}, 4), Tokens({0, 1, 2, 0}));
    // The prompt's 0 is at 2 from the start.
    EXPECT_EQ(draw({.repetition_penalty = 2.0F}, {0}, 4), Tokens({1, 2, 0, 0}));
    EXPECT_EQ(draw({}, {0}, 2), Tokens({0, 0}));
  }
}

TEST(SamplerTest, EndTokensWaitForMinTokens) {
  const std::vector<float> logits = {1.0F, 9.0F, 2.0F, 8.0F};
  const Tokens ends = {1, 3, 77, -1};
  Sampler sampler;
  for (const uint64_t index : {0, 1, 2, 3}) {
    EXPECT_EQ(
        sampler.Sample(logits, {.min_tokens = 3}, {.sample_index = index, .stop_tokens = ends}),
        index < 3 ? 2 : 1);
  }
}

TEST(SamplerTest, SmallTemperaturesAndHugeLogitsStayFinite) {
  Sampler sampler;
  const std::vector<float> logits = {3e38F, -3e38F, 1.0F, -INFINITY};
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.Sample(logits, {.temperature = 1e-30F, .seed = 9}, {.sample_index = i}), 0);
  }
  // Penalties may overflow: the largest stays the largest.
  const Tokens prompt = {0, 1};
  EXPECT_EQ(Kept(logits, {.temperature = 1, .repetition_penalty = 0.01F}, {.prompt = prompt}),
            Tokens({0}));
}

TEST(SamplerTest, ADrawDependsOnSeedAndIndexOnly) {
  const std::vector<float> logits(64, 0.0F);
  Sampler fresh;
  Sampler used;
  int equal = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const SamplingParams params{.temperature = 1, .seed = 3};
    const SamplingParams other{.temperature = 1, .seed = 4};
    used.Sample(logits, other, {.sample_index = i + 7});
    const Token token = fresh.Sample(logits, params, {.sample_index = i});
    EXPECT_EQ(token, used.Sample(logits, params, {.sample_index = i}));
    if (token == fresh.Sample(logits, other, {.sample_index = i})) ++equal;
  }
  EXPECT_LT(equal, 20);  // 200 / 64 expected
}

}  // namespace
}  // namespace decant
