#include "sched/request.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace decant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::shared_ptr<const LogitBias> Biases(LogitBias biases) {
  return std::make_shared<const LogitBias>(std::move(biases));
}

TEST(RequestTest, RefusesSamplingParametersByName) {
  struct Case {
    SamplingParams sampling;
    const char* message;  ///< Empty: accepted.
  };
  const Case cases[] = {
      {{}, ""},
      {{.temperature = 1.5F, .top_k = 40, .top_p = 0.9F, .seed = 7}, ""},
      {{.temperature = kNan}, "temperature is nan: allowed is a finite number of at least 0"},
      {{.temperature = kInf}, "temperature is inf: allowed is a finite number of at least 0"},
      {{.temperature = -0.5F}, "temperature is -0.5: allowed is a finite number of at least 0"},
      {{.top_k = -1}, "top_k is -1: allowed is at least 0 (0: all tokens)"},
      {{.top_p = kNan}, "top_p is nan: allowed is above 0 and at most 1"},
      {{.top_p = 0.0F}, "top_p is 0: allowed is above 0 and at most 1"},
      {{.top_p = 1.5F}, "top_p is 1.5: allowed is above 0 and at most 1"},
      {{.min_p = kNan}, "min_p is nan: allowed is 0 to 1 (0: all tokens)"},
      {{.min_p = -0.1F}, "min_p is -0.1: allowed is 0 to 1 (0: all tokens)"},
      {{.min_p = 1.1F}, "min_p is 1.1: allowed is 0 to 1 (0: all tokens)"},
      {{.repetition_penalty = kNan},
       "repetition_penalty is nan: allowed is a finite number above 0 (1: none)"},
      {{.repetition_penalty = kInf},
       "repetition_penalty is inf: allowed is a finite number above 0 (1: none)"},
      {{.repetition_penalty = 0.0F},
       "repetition_penalty is 0: allowed is a finite number above 0 (1: none)"},
      {{.frequency_penalty = kNan}, "frequency_penalty is nan: allowed is -2 to 2 (0: none)"},
      {{.frequency_penalty = 2.5F}, "frequency_penalty is 2.5: allowed is -2 to 2 (0: none)"},
      {{.presence_penalty = kNan}, "presence_penalty is nan: allowed is -2 to 2 (0: none)"},
      {{.presence_penalty = -kInf}, "presence_penalty is -inf: allowed is -2 to 2 (0: none)"},
      {{.min_tokens = -1}, "min_tokens is -1: allowed is at least 0"},
      {{.logprobs = 21}, "logprobs is 21: allowed is 0 to 20"},
      {{.logprobs = -1}, "logprobs is -1: allowed is 0 to 20"},
      {{.prompt_logprobs = 21}, "prompt_logprobs is 21: allowed is 0 to 20"},
      {{.logit_bias = Biases({{3, kNan}})}, "logit_bias of token 3 is nan: allowed is -100 to 100"},
      {{.logit_bias = Biases({{3, 1.0F}, {4, 100.5F}})},
       "logit_bias of token 4 is 100.5: allowed is -100 to 100"},
      {{.logit_bias = Biases({{-1, 1.0F}})}, "logit_bias names token -1: ids start at 0"},
      {{.logit_bias = Biases({{7, 1.0F}, {3, 1.0F}, {7, 2.0F}})}, "logit_bias names token 7 twice"},
      {{.logit_bias = Biases(LogitBias(1025))},
       "logit_bias has 1025 tokens: allowed is at most 1024"},
      {{.min_p = 1.0F,
        .logit_bias = Biases({{0, -100.0F}, {1, 100.0F}}),
        .repetition_penalty = 1e-3F,
        .frequency_penalty = -2.0F,
        .presence_penalty = 2.0F,
        .min_tokens = 5,
        .logprobs = 0,
        .prompt_logprobs = 20},
       ""},
  };
  for (const Case& c : cases) EXPECT_EQ(ValidateSampling(c.sampling).message(), c.message);
}

TEST(RequestTest, EachSampleHasASeedOfItsOwnAndTheFirstTheRequests) {
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    EXPECT_EQ(SampleSeed(seed, 0), seed);
    for (int32_t sample = 0; sample < 100; ++sample) seeds.insert(SampleSeed(seed, sample));
  }
  EXPECT_EQ(seeds.size(), 300);
}

TEST(RequestTest, RefusesWhatCanNeverRunWithTheNumbers) {
  const RequestLimits limits{.max_model_len = 10, .vocab_size = 100};
  const Request good{.id = 1, .prompt = {0, 99}, .max_new_tokens = 8};
  EXPECT_TRUE(ValidateRequest(good, limits).ok());

  const auto refusal = [&](auto change) {
    Request request = good;
    change(request);
    return ValidateRequest(request, limits);
  };
  EXPECT_EQ(refusal([](Request& r) { r.prompt.clear(); }).message(), "the prompt has no tokens");
  EXPECT_EQ(refusal([](Request& r) { r.max_new_tokens = 0; }).message(),
            "the budget is 0 tokens: allowed is at least 1");
  EXPECT_EQ(refusal([](Request& r) { r.prompt[1] = 100; }).message(),
            "prompt token 1 is 100: the vocabulary has 100");
  EXPECT_EQ(refusal([](Request& r) { r.prompt[0] = -1; }).message(),
            "prompt token 0 is -1: ids start at 0");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.top_p = kNan; }).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal([](Request& r) { r.sampling.min_tokens = 9; }).message(),
            "min_tokens is 9: allowed is at most the budget of 8");
  EXPECT_EQ(refusal([](Request& r) {
              r.sampling.logit_bias = Biases({{100, 1.0F}});
            }).message(),
            "logit_bias names token 100: the vocabulary has 100");
  const Status over = refusal([](Request& r) { r.max_new_tokens = 9; });
  EXPECT_EQ(over.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(over.message(), "a prompt of 2 tokens and a budget of 9 make 11: the model takes 10");
  const Status huge =
      refusal([](Request& r) { r.max_new_tokens = std::numeric_limits<int32_t>::max(); });
  EXPECT_EQ(huge.message(),
            "a prompt of 2 tokens and a budget of 2147483647 make 2147483649: the model takes 10");
}

}  // namespace
}  // namespace decant
