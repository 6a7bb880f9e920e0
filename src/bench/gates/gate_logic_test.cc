// The rules that gates judge by, without an engine.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bench/gates/gate_report.h"
#include "bench/gates/near_tie.h"
#include "bench/gates/precision.h"

namespace decant {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(PrecisionTest, UnitsGrowWithTheMagnitude) {
  // The seed's figure: one unit of fp16 between 2 and 4.
  EXPECT_EQ(UnitInLastPlace(DType::kF16, 3.0), 0x1p-9);
  EXPECT_EQ(UnitInLastPlace(DType::kF16, 4.0), 0x1p-8);
  EXPECT_EQ(UnitInLastPlace(DType::kF16, -1.99), 0x1p-10);
  EXPECT_EQ(UnitInLastPlace(DType::kBf16, 1.0), 0x1p-7);
  EXPECT_EQ(UnitInLastPlace(DType::kF32, 1.0), 0x1p-23);
  EXPECT_EQ(UnitInLastPlace(DType::kF16, 0.0), 0x1p-24);
  EXPECT_EQ(UnitInLastPlace(DType::kF16, 1e-7), 0x1p-24);
  EXPECT_TRUE(std::isnan(UnitInLastPlace(DType::kF16, kNaN)));
}

TEST(PrecisionTest, RoundsAsTheTypesDo) {
  for (const float value : {0.0F, 1.0F, -3.14159F, 1e-3F, 6.1e-5F, 3e-7F, 65504.0F, 2.00390625F}) {
    EXPECT_EQ(RoundTo(DType::kBf16, value), ToFloat(ToBf16(value))) << value;
    EXPECT_EQ(RoundTo(DType::kF16, value), ToFloat(ToF16(value))) << value;
    EXPECT_EQ(RoundTo(DType::kF32, value), value);
  }
  EXPECT_TRUE(std::isnan(RoundTo(DType::kBf16, kNaN)));
}

using Tokens = std::vector<Token>;

TEST(NearTieTest, SameTokensPass) {
  NearTieJudge judge({});
  const Tokens prompt = {1, 2};
  const Tokens tokens = {3, 4, 5};
  const std::vector<float> gaps = {1, 0.001F, 1};
  judge.Compare("a", {prompt, tokens, gaps}, tokens);
  EXPECT_TRUE(judge.Failures().empty());
  EXPECT_EQ(judge.tokens(), 3);
  EXPECT_EQ(judge.flipped_requests(), 0);
}

TEST(NearTieTest, AFlipPassesOnlyBelowTheGap) {
  const Tokens prompt = {1};
  const Tokens tokens = {3, 4, 5};
  const Tokens flipped = {3, 9, 8};
  for (const auto& [gap, passes] : {std::pair(0.0199F, true), std::pair(0.0201F, false),
                                    std::pair(0.0F, true), std::pair(kNaN, false)}) {
    NearTieJudge judge({.gap = 0.02, .max_sites = 1});
    judge.Compare("request", {prompt, tokens, std::vector<float>{1, gap, 1}}, flipped);
    EXPECT_EQ(judge.Failures().empty(), passes) << gap;
    ASSERT_EQ(judge.sites().size(), 1U);
    EXPECT_EQ(judge.sites()[0].position, 1);
    EXPECT_EQ(judge.sites()[0].token, 9);
    EXPECT_EQ(judge.sites()[0].reference_token, 4);
    EXPECT_EQ(judge.tokens(), 2);  // nothing behind the flip
  }
}

TEST(NearTieTest, AGapThatWasNotRecordedFails) {
  NearTieJudge judge({});
  const Tokens prompt = {1};
  judge.Compare("request", {prompt, Tokens{3, 4}, std::vector<float>{0}}, Tokens{3, 5});
  EXPECT_FALSE(judge.Failures().empty());
}

TEST(NearTieTest, ASiteCountsOnceAndSitesAreCapped) {
  NearTieJudge judge({.gap = 0.02, .max_sites = 2});
  const std::vector<float> gaps = {0, 0, 0};
  const Tokens tokens = {3, 4, 5};
  const Tokens flipped = {3, 4, 6};
  for (int repeat = 0; repeat < 5; ++repeat) {
    judge.Compare("same", {Tokens{1}, tokens, gaps}, flipped);
  }
  EXPECT_EQ(judge.sites().size(), 1U);
  EXPECT_EQ(judge.sites()[0].requests, 5);
  judge.Compare("another prompt", {Tokens{2}, tokens, gaps}, flipped);
  EXPECT_TRUE(judge.Failures().empty());
  // The same prompt and position, another choice: a site of its own.
  judge.Compare("another token", {Tokens{1}, tokens, gaps}, Tokens{3, 4, 7});
  EXPECT_EQ(judge.sites().size(), 3U);
  ASSERT_EQ(judge.Failures().size(), 1U);
  EXPECT_NE(judge.Failures()[0].find("at most 2"), std::string::npos);
}

TEST(NearTieTest, AnotherNumberOfTokensFails) {
  NearTieJudge judge({});
  judge.Compare("short", {Tokens{1}, Tokens{3, 4}, std::vector<float>{0, 0}}, Tokens{3});
  EXPECT_EQ(judge.Failures().size(), 1U);
  EXPECT_FALSE(NearTieJudge({}).Failures().empty());  // nothing compared
}

TEST(GateReportTest, ARowSaysWhatWasFound) {
  GateReport report;
  report.gate = "engine";
  report.compared.Add("requests", 3);
  report.flip_sites = {{.where = "request 1", .gap = 0.01, .allowed_gap = 0.02, .requests = 1}};
  EXPECT_TRUE(report.passed());
  report.failures.assign(12, "wrong");
  RunHeader header;
  header.seed = 7;
  const std::string row = ToJson(report, header).ToString();
  for (const char* part : {R"("gate": "engine")", R"("passed": false)", R"("requests": 3)",
                           R"("where": "request 1")", R"("failure_count": 12)", R"("seed": 7)"}) {
    EXPECT_NE(row.find(part), std::string::npos) << part << " in " << row;
  }
  EXPECT_NE(ToText(report).find("gate engine: FAILED"), std::string::npos);
  EXPECT_NE(ToText(report).find("2 more"), std::string::npos);
}

}  // namespace
}  // namespace decant
