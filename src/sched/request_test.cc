#include "sched/request.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace decant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

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
