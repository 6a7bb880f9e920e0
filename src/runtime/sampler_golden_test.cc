// Against Hugging Face transformers; tests/tools/make_sampling_golden.py says what the file holds.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/sampler.h"

namespace decant {
namespace {

using nlohmann::json;

SamplingParams ParseParams(const json& fields) {
  SamplingParams params{.temperature = fields.value("temperature", 1.0F),
                        .top_k = fields.value("top_k", 0),
                        .top_p = fields.value("top_p", 1.0F),
                        .min_p = fields.value("min_p", 0.0F),
                        .repetition_penalty = fields.value("repetition_penalty", 1.0F),
                        .frequency_penalty = fields.value("frequency_penalty", 0.0F),
                        .presence_penalty = fields.value("presence_penalty", 0.0F),
                        .min_tokens = fields.value("min_tokens", 0)};
  if (fields.contains("logit_bias")) {
    LogitBias biases;
    for (const json& entry : fields["logit_bias"]) biases.push_back({entry[0], entry[1]});
    params.logit_bias = std::make_shared<const LogitBias>(std::move(biases));
  }
  return params;
}

/// Makes `sampler` draw `tokens` for a request with this prompt.
void Generate(Sampler& sampler, SamplingParams params, const std::vector<Token>& prompt,
              const std::vector<Token>& tokens, size_t vocab) {
  params.min_tokens = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<float> logits(vocab, -INFINITY);
    logits[tokens[i]] = 0;
    ASSERT_EQ(sampler.Sample(logits, params, {.sample_index = i, .prompt = prompt}), tokens[i]);
  }
}

TEST(SamplerGoldenTest, KeepsTheTokensAndProbabilitiesOfTransformers) {
  std::ifstream file(std::string(DECANT_TEST_DATA) + "/sampling/distributions.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const json header = json::parse(line);
  const auto prompt = header["prompt"].get<std::vector<Token>>();
  const auto generated = header["generated"].get<std::vector<Token>>();
  const auto end_tokens = header["end_tokens"].get<std::vector<Token>>();
  Sampler sampler;  // One for all: each case is a request that follows another in the same row.
  int cases = 0;
  for (; std::getline(file, line); ++cases) {
    const json golden = json::parse(line);
    SCOPED_TRACE(golden["logits"].dump() + " " + golden["params"].dump());
    const auto logits =
        header["logits"][golden["logits"].get<std::string>()].get<std::vector<float>>();
    const SamplingParams params = ParseParams(golden["params"]);
    Generate(sampler, params, prompt, generated, logits.size());
    std::vector<TokenProbability> distribution = sampler.Distribution(
        logits, params,
        {.sample_index = generated.size(), .prompt = prompt, .stop_tokens = end_tokens});
    std::erase_if(distribution, [](const auto& entry) { return entry.probability < 1e-30; });
    const auto tokens = golden["tokens"].get<std::vector<Token>>();
    const auto probabilities = golden["probabilities"].get<std::vector<double>>();
    ASSERT_EQ(distribution.size(), tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(distribution[i].token, tokens[i]);
      EXPECT_NEAR(distribution[i].probability, probabilities[i], 2e-6 * probabilities[i]);
    }
  }
  EXPECT_GE(cases, 150);
}

}  // namespace
}  // namespace decant
