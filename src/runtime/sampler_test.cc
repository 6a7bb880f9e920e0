#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace decant {
namespace {

constexpr int kDraws = 20000;

/// How often each token is drawn.
std::map<Token, double> Frequencies(const std::vector<float>& logits,
                                    const SamplingParams& params) {
  Sampler sampler;
  std::map<Token, double> frequencies;
  for (int i = 0; i < kDraws; ++i) frequencies[sampler.Sample(logits, params, i)] += 1.0 / kDraws;
  return frequencies;
}

TEST(SamplerTest, GreedyTakesTheFirstOfTheLargest) {
  Sampler sampler;
  std::vector<float> logits(1000, -1.0F);
  logits[17] = 3.0F;
  logits[900] = 3.0F;
  EXPECT_EQ(sampler.Sample(logits, {}, 0), 17);
  logits[999] = 4.0F;
  EXPECT_EQ(sampler.Sample(logits, {}, 0), 999);
  logits[3] = std::nanf("");
  EXPECT_EQ(sampler.Sample(logits, {}, 0), 999);
  EXPECT_EQ(sampler.Sample(std::vector<float>(50, std::nanf("")), {}, 0), 0);
}

TEST(SamplerTest, FollowsTheSoftmaxOfLogitsOverTemperature) {
  const std::vector<float> logits = {1.0F, 2.0F, 0.0F, 3.0F};
  for (float temperature : {0.5F, 1.0F, 2.0F}) {
    double total = 0;
    for (float logit : logits) total += std::exp(logit / temperature);
    const auto frequencies = Frequencies(logits, {.temperature = temperature, .seed = 5});
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = std::exp(logits[i] / temperature) / total;
      const double deviation = std::sqrt(expected * (1 - expected) / kDraws);
      const auto found = frequencies.find(static_cast<Token>(i));
      const double frequency = found == frequencies.end() ? 0 : found->second;
      EXPECT_NEAR(frequency, expected, 5 * deviation) << i << " at " << temperature;
    }
  }
}

TEST(SamplerTest, TopKAndTopPCutTheTail) {
  // Probabilities 0.5, 0.25, 0.15, 0.1.
  const std::vector<float> logits = {std::log(0.15F), std::log(0.5F), std::log(0.1F),
                                     std::log(0.25F)};
  const auto kept = [&](const SamplingParams& params) {
    std::vector<Token> tokens;
    for (const auto& [token, frequency] : Frequencies(logits, params)) tokens.push_back(token);
    return tokens;
  };
  using Tokens = std::vector<Token>;
  EXPECT_EQ(kept({.temperature = 1, .top_k = 1}), Tokens({1}));
  EXPECT_EQ(kept({.temperature = 1, .top_k = 3}), Tokens({0, 1, 3}));
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.4F}), Tokens({1}));
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.7F}), Tokens({1, 3}));
  EXPECT_EQ(kept({.temperature = 1, .top_p = 1.0F}), Tokens({0, 1, 2, 3}));
  // Top-k first: of the two left, 0.5 / 0.75 alone reaches 0.6.
  EXPECT_EQ(kept({.temperature = 1, .top_k = 2, .top_p = 0.6F}), Tokens({1}));
}

TEST(SamplerTest, SmallTemperaturesAndHugeLogitsStayFinite) {
  Sampler sampler;
  const std::vector<float> logits = {3e38F, -3e38F, 1.0F, -INFINITY};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(sampler.Sample(logits, {.temperature = 1e-30F, .seed = 9}, i), 0);
  }
}

TEST(SamplerTest, ADrawDependsOnSeedAndIndexOnly) {
  const std::vector<float> logits(64, 0.0F);
  Sampler fresh;
  Sampler used;
  int equal = 0;
  for (int i = 0; i < 200; ++i) {
    const SamplingParams params{.temperature = 1, .seed = 3};
    const SamplingParams other{.temperature = 1, .seed = 4};
    used.Sample(logits, other, i + 7);
    EXPECT_EQ(fresh.Sample(logits, params, i), used.Sample(logits, params, i));
    if (fresh.Sample(logits, params, i) == fresh.Sample(logits, other, i)) ++equal;
  }
  EXPECT_LT(equal, 20);  // 200 / 64 expected
}

}  // namespace
}  // namespace decant
