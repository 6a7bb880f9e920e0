#include "bench/score.h"

#include <cmath>
#include <limits>

#include "bench/prompt_alphabet.h"
#include "bench/tiny_engine.h"
#include "bench/workload.h"

namespace decant {
namespace {

class ScoreTest : public TinyEngineTest {
 protected:
  static std::vector<Token> RandomTokens(const ServedModel& served, int32_t count) {
    return MakeWorkItem({.prompt_lengths = {count}}, 5, PromptAlphabet(served.tokenizer())).prompt;
  }

  static TextScore Score(ServedModel& served, std::span<const Token> tokens, int32_t window) {
    return ScoreTokens(served.engine(), served.tokenizer(), tokens, window, nullptr).value();
  }
};

TEST_F(ScoreTest, PromptAndDecodeKernelsAgree) {
  // The paths round to bf16 at different places, and the tiny model's logits reach 20, where that
  // is steps of 0.125.
  constexpr double kTolerance = 0.3;
  constexpr double kMeanTolerance = 0.01;
  const auto by_chunks = Load(DecodeKernel::kSplit, 1, 128);
  const std::vector<Token> tokens = RandomTokens(*by_chunks, 150);
  const TextScore prompt = Score(*by_chunks, tokens, 100);
  ASSERT_EQ(prompt.logprobs.size(), 148) << "all but the first of two pieces";
  for (const DecodeKernel kernel : {DecodeKernel::kSplit, DecodeKernel::kRows}) {
    const auto one_by_one = Load(kernel, 1, 1);
    const TextScore decode = Score(*one_by_one, tokens, 100);
    one_by_one->engine().Drain();  // until every step is counted
    EXPECT_GE(one_by_one->engine().Stats().steps(), 149) << "one position a step";
    EXPECT_LE(LargestDifference(prompt, decode), kTolerance);
    EXPECT_NEAR(prompt.sum() / 148, decode.sum() / 148, kMeanTolerance);
  }
  const TextScore other = Score(*by_chunks, tokens, 75);
  EXPECT_GT(LargestDifference(prompt, other), 4 * kTolerance) << "histories cut elsewhere";
}

TEST_F(ScoreTest, SumsWhatPromptLogprobsGive) {
  const auto served = Load(DecodeKernel::kSplit, 2, 16);
  const std::vector<Token> tokens = RandomTokens(*served, 40);
  GenerateRequest request;
  request.prompt = tokens;
  request.max_new_tokens = 3;
  request.sampling.prompt_logprobs = 1;
  const Completion completion =
      SubmitAndCollect(served->engine(), std::move(request)).value().get();
  double sum = 0;
  int64_t bytes = 0;
  for (size_t i = 1; i < tokens.size(); ++i) {
    EXPECT_EQ(completion.prompt_logprobs[i - 1].chosen.token, tokens[i]);
    sum += completion.prompt_logprobs[i - 1].chosen.logprob;
    bytes += std::ssize(served->tokenizer().TokenBytes(tokens[i]));
  }
  const TextScore score = Score(*served, tokens, 40);
  EXPECT_DOUBLE_EQ(score.sum(), sum);
  EXPECT_EQ(score.bytes, bytes);
  EXPECT_DOUBLE_EQ(score.perplexity(), std::exp(-sum / 39));
  EXPECT_DOUBLE_EQ(score.bits_per_byte(), -sum / std::log(2.0) / static_cast<double>(bytes));

  EXPECT_EQ(Score(*served, tokens, 39).logprobs.size(), 38) << "a last piece of one token";
  const auto nothing =
      ScoreTokens(served->engine(), served->tokenizer(), std::span(tokens).first(1), 40, nullptr);
  EXPECT_EQ(nothing.status().code(), StatusCode::kInvalidArgument);
  const auto long_window = ScoreTokens(served->engine(), served->tokenizer(),
                                       std::vector<Token>(3000, 1), 3000, nullptr);
  EXPECT_EQ(long_window.status().code(), StatusCode::kResourceExhausted);
}

TEST(TextScoreTest, NotANumberIsTheLargestDifference) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const TextScore a{.logprobs = {-1, -2, -3}, .bytes = 3};
  const TextScore b{.logprobs = {-1, -2.5, -3}, .bytes = 3};
  const TextScore c{.logprobs = {-1, kNan, 5}, .bytes = 3};
  EXPECT_EQ(LargestDifference(a, a), 0);
  EXPECT_EQ(LargestDifference(a, b), 0.5);
  EXPECT_TRUE(std::isnan(LargestDifference(a, c)));
}

}  // namespace
}  // namespace decant
