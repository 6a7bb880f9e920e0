#include "bench/parity.h"

#include <cmath>
#include <limits>

#include "bench/closed_run.h"
#include "bench/prompt_alphabet.h"
#include "bench/tiny_engine.h"
#include "bench/token_hash.h"

namespace decant {
namespace {

TokenRow Row(int32_t index, int32_t prompt_tokens, std::vector<Token> tokens) {
  TokenRow row;
  row.run = {.workload = "mixed", .load = "batch of 8", .decode_kernel = "rows"};
  row.index = index;
  row.prompt_tokens = prompt_tokens;
  row.prompt_hash = static_cast<uint64_t>(1000 + index);
  row.tokens = std::move(tokens);
  return row;
}

TEST(CompareTokenRowsTest, CountsByLengthAndFindsFirstFlips) {
  const std::vector<TokenRow> a = {Row(0, 64, {1, 2, 3}), Row(1, 16, {4, 5, 6}),
                                   Row(2, 16, {7, 8, 9}), Row(3, 64, {7, 8, 9})};
  std::vector<TokenRow> b = {Row(3, 64, {7, 8, 9}), Row(2, 16, {7, 1, 2}), Row(1, 16, {4, 5, 6}),
                             Row(0, 64, {0, 2, 3})};
  const Parity parity = CompareTokenRows(a, b);
  ASSERT_EQ(parity.lengths.size(), 2);
  EXPECT_EQ(parity.lengths[0].prompt_tokens, 16);
  EXPECT_EQ(parity.lengths[0].count.requests, 2);
  EXPECT_EQ(parity.lengths[0].count.differ, 1);
  EXPECT_EQ(parity.lengths[1].prompt_tokens, 64);
  EXPECT_EQ(parity.lengths[1].count.differ, 1);
  EXPECT_EQ(parity.all.requests, 4);
  EXPECT_EQ(parity.all.differ, 2);
  EXPECT_EQ(parity.all.share(), 0.5);
  ASSERT_EQ(parity.flips.size(), 2);
  EXPECT_EQ(parity.flips[0].a, &a[0]);
  EXPECT_EQ(parity.flips[0].b, &b[3]);
  EXPECT_EQ(parity.flips[0].position, 0);
  EXPECT_EQ(parity.flips[1].position, 1);
  EXPECT_EQ(parity.flips[1].token_a, 8);
  EXPECT_EQ(parity.flips[1].token_b, 1);
  EXPECT_EQ(parity.only_a + parity.only_b, 0);
  EXPECT_EQ(CompareTokenRows(a, a).all.differ, 0);
}

TEST(CompareTokenRowsTest, OnlyTheSameRequestIsCompared) {
  const std::vector<TokenRow> a = {Row(0, 16, {1}), Row(1, 16, {1})};
  const auto one_sided = [&a](const auto& change) {
    std::vector<TokenRow> b = a;
    change(b[1]);
    const Parity parity = CompareTokenRows(a, b);
    EXPECT_EQ(parity.all.requests, 1);
    return parity.only_a == 1 && parity.only_b == 1;
  };
  EXPECT_TRUE(one_sided([](TokenRow& row) { row.run.workload = "p256"; }));
  EXPECT_TRUE(one_sided([](TokenRow& row) { row.run.load = "batch of 9"; }));
  EXPECT_TRUE(one_sided([](TokenRow& row) { row.run.options.seed = 1; }));
  EXPECT_TRUE(one_sided([](TokenRow& row) { row.run.options.scale = 2; }));
  EXPECT_TRUE(one_sided([](TokenRow& row) { row.index = 7; }));
  EXPECT_TRUE(one_sided([](TokenRow& row) { row.prompt_hash = 7; }));
  const Parity none = CompareTokenRows(a, {});
  EXPECT_EQ(none.only_a, 2);
  EXPECT_TRUE(std::isnan(none.all.share()));
}

TEST(CompareTokenRowsTest, RepeatsGoInTurnAndAShorterAnswerDiffers) {
  const std::vector<TokenRow> a = {Row(0, 16, {1}), Row(0, 16, {2}), Row(0, 16, {3})};
  const std::vector<TokenRow> b = {Row(0, 16, {1}), Row(0, 16, {2, 4})};
  const Parity parity = CompareTokenRows(a, b);
  EXPECT_EQ(parity.all.requests, 2);
  EXPECT_EQ(parity.only_a, 1);
  ASSERT_EQ(parity.flips.size(), 1);
  EXPECT_EQ(parity.flips[0].position, 1);
  EXPECT_FALSE(parity.flips[0].token_a.has_value());
  EXPECT_EQ(parity.flips[0].token_b, 4);
}

TEST(FlipFindingsTest, SitesAndAnswersCountOnce) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const TokenRow a = Row(0, 16, {1, 2});
  const TokenRow b = Row(0, 16, {1, 3, 4, 5});
  const std::vector<Flip> flips(4, {.a = &a, .b = &b});
  std::vector<FlipFinding> findings = {
      {.gap = 0.01, .new_site = true, .logprob_a = -2, .logprob_b = -8, .new_answers = true},
      {.gap = 0.01, .new_site = false, .logprob_a = -4, .logprob_b = -4, .new_answers = true},
      {.gap = 0.02, .new_site = true, .logprob_a = -9, .logprob_b = 0, .new_answers = false},
      {.gap = 0.5, .new_site = false, .logprob_a = -6, .logprob_b = -4, .new_answers = true}};
  SiteCount sites = CountSites(findings, 0.02);
  EXPECT_EQ(sites.sites, 2);
  EXPECT_EQ(sites.near_ties, 1) << "the gap must be under it";
  EXPECT_EQ(sites.largest_gap, 0.02);
  const AnswerQuality quality = CompareAnswers(flips, findings);
  EXPECT_EQ(quality.pairs, 3);
  EXPECT_EQ(quality.a_higher, 1);
  EXPECT_EQ(quality.b_higher, 2) << "a token, not in all";
  EXPECT_DOUBLE_EQ(quality.total.mean, (6.0 + 0 - 2) / 3);
  EXPECT_DOUBLE_EQ(quality.per_token.mean, (1.0 - 1 - 2) / 3);
  EXPECT_DOUBLE_EQ(quality.total.error, std::sqrt(52.0 / 9));

  findings[0].gap = kNan;
  sites = CountSites(findings, 0.02);
  EXPECT_EQ(sites.near_ties, 0);
  EXPECT_TRUE(std::isnan(sites.largest_gap)) << "a later gap does not hide it";
  EXPECT_EQ(CountSites({}, 0.02).sites, 0);
  EXPECT_TRUE(std::isnan(CompareAnswers({}, {}).total.mean));
}

class ParityTest : public TinyEngineTest {
 protected:
  static constexpr int32_t kRequests = 6;
  const WorkloadOptions options_{
      .prompt_lengths = {3, 40}, .min_budget = 10, .max_budget = 20, .seed = 3};

  /// What a run of the workload gives.
  std::vector<TokenRow> Run(DecodeKernel kernel) {
    const auto served = Load(kernel, 4, 16);
    const Workload workload =
        MakeWorkload("mixed", options_, kRequests, PromptAlphabet(served->tokenizer()));
    const ClosedRun run = RunClosed(served->engine(), workload, [] {}).value();
    std::vector<TokenRow> rows;
    for (int32_t i = 0; i < kRequests; ++i) {
      const std::vector<Token>& prompt = workload.items[i].prompt;
      rows.push_back({.run = {.workload = "mixed", .options = options_, .load = "batch of 6"},
                      .index = i,
                      .prompt_tokens = static_cast<int32_t>(prompt.size()),
                      .prompt_hash = HashTokens(0, prompt),
                      .tokens = run.requests[i].tokens});
    }
    return rows;
  }

  /// The answer to a request, with the two best logits at each token.
  static Completion Answer(ServedModel& served, const TokenRow& row) {
    GenerateRequest request;
    request.prompt = MakeWorkItem(row.run.options, static_cast<uint64_t>(row.index),
                                  PromptAlphabet(served.tokenizer()))
                         .prompt;
    request.max_new_tokens = static_cast<int32_t>(row.tokens.size());
    request.ignore_end_of_text = true;
    request.sampling.logprobs = 2;
    return SubmitAndCollect(served.engine(), std::move(request)).value().get();
  }
};

TEST_F(ParityTest, RunsOfOneEngineDoNotDiffer) {
  const Parity parity = CompareTokenRows(Run(DecodeKernel::kSplit), Run(DecodeKernel::kSplit));
  EXPECT_EQ(parity.all.requests, kRequests);
  EXPECT_EQ(parity.all.differ, 0);
}

TEST_F(ParityTest, AForgedFlipGetsItsGap) {
  // A chunk of the prompt kernel stands in for decode steps here; both round.
  constexpr double kTolerance = 0.02;
  constexpr int32_t kPosition = 5;
  const std::vector<TokenRow> a = Run(DecodeKernel::kSplit);
  std::vector<TokenRow> b = a;
  const auto served = Load(DecodeKernel::kSplit, 4, 16);
  const Completion answer = Answer(*served, a[2]);
  ASSERT_EQ(answer.tokens, a[2].tokens);
  const std::vector<TokenLogprob>& top = answer.logprobs[kPosition].top;
  b[2].tokens[kPosition] = top[1].token;
  b[4].tokens.back() = top[1].token == a[4].tokens.back() ? top[0].token : top[1].token;

  const Parity parity = CompareTokenRows(a, b);
  ASSERT_EQ(parity.flips.size(), 2);
  std::vector<Flip> flips = parity.flips;
  flips.push_back(flips[0]);
  const std::vector<Token> alphabet = PromptAlphabet(served->tokenizer());
  const std::vector<FlipFinding> findings =
      JudgeFlips(served->engine(), alphabet, flips, nullptr).value();
  ASSERT_EQ(findings.size(), 3);
  const FlipFinding& finding = findings[0];
  EXPECT_EQ(finding.best, top[0].token);
  EXPECT_EQ(finding.second, top[1].token);
  EXPECT_NEAR(finding.gap, top[0].logprob - top[1].logprob, kTolerance);
  double logprob = 0;
  for (const PositionLogprobs& position : answer.logprobs) logprob += position.chosen.logprob;
  EXPECT_NEAR(finding.logprob_a, logprob, kTolerance * std::ssize(answer.tokens));
  EXPECT_LT(finding.logprob_b, finding.logprob_a);
  EXPECT_TRUE(finding.new_site && finding.new_answers);
  EXPECT_TRUE(findings[1].new_site && findings[1].new_answers);
  EXPECT_FALSE(findings[2].new_site || findings[2].new_answers) << "seen before";
  EXPECT_EQ(findings[2].gap, finding.gap);
  EXPECT_EQ(findings[2].logprob_b, finding.logprob_b);
}

TEST_F(ParityTest, APromptOfAnotherVocabularyIsRefused) {
  const std::vector<TokenRow> a = Run(DecodeKernel::kSplit);
  std::vector<TokenRow> b = a;
  b[1].tokens[0] ^= 1;
  const std::vector<Flip> flips = CompareTokenRows(a, b).flips;
  const auto served = Load(DecodeKernel::kSplit, 4, 16);
  std::vector<Token> alphabet = PromptAlphabet(served->tokenizer());
  EXPECT_TRUE(JudgeFlips(served->engine(), alphabet, flips, nullptr).ok());
  alphabet.pop_back();
  const Status status = JudgeFlips(served->engine(), alphabet, flips, nullptr).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("request 1 of 'mixed'"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace decant
