#include "bench/token_rows.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temporary_folder.h"
#include "bench/token_hash.h"

namespace decant {
namespace {

class TokenRowsTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& text) const {
    std::filesystem::path path = folder_ / "written.jsonl";
    std::ofstream(path) << text;
    return path;
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(TokenRowsTest, WhatWasWrittenIsRead) {
  const TokenRun run{
      .workload = "mixed \"seed\" 7",
      .options = {.prompt_lengths = {3, 90}, .min_budget = 2, .scale = 0.3, .seed = ~uint64_t{0}},
      .load = "batch of 8",
      .decode_kernel = "split",
      .page_size = 64,
      .max_batch = 4,
      .chunk_tokens = 512};
  const std::vector<Token> prompt = {5, 6, 7};
  for (int32_t part = 0; part < 2; ++part) {
    TokenFile file = TokenFile::Open(folder_, MakeRunHeader({}, 0)).value();
    ASSERT_TRUE(file.Add(run, 2 * part, prompt, std::vector<Token>{1, 0}).ok());
    ASSERT_TRUE(file.Add(run, 2 * part + 1, prompt, std::vector<Token>{49151}).ok());
    ASSERT_TRUE(file.Close().ok());
  }
  const std::vector<TokenRow> rows = ReadTokenRows(folder_).value();
  ASSERT_EQ(rows.size(), 4) << "a file is added to; headers inside it are no rows";
  EXPECT_EQ(ReadTokenRows(folder_ / TokenFile::kName).value().size(), 4);
  const TokenRow& row = rows[3];
  EXPECT_EQ(row.run.workload, run.workload);
  EXPECT_EQ(row.run.options.prompt_lengths, run.options.prompt_lengths);
  EXPECT_EQ(row.run.options.min_budget, 2);
  EXPECT_EQ(row.run.options.max_budget, 256);
  EXPECT_EQ(row.run.options.scale, 0.3);
  EXPECT_EQ(row.run.options.seed, ~uint64_t{0});
  EXPECT_EQ(row.run.load, "batch of 8");
  EXPECT_EQ(row.run.Settings(), "split, pages of 64, 4 rows, chunks of 512");
  EXPECT_EQ(row.index, 3);
  EXPECT_EQ(row.prompt_tokens, 3);
  EXPECT_EQ(row.prompt_hash, HashTokens(0, prompt));
  EXPECT_EQ(row.tokens, std::vector<Token>{49151});
  EXPECT_EQ(rows[0].tokens, (std::vector<Token>{1, 0}));
}

TEST(TokenHashTest, DependsOnEveryTokenAndTheirOrder) {
  const std::vector<Token> tokens = {1, 2, 3};
  const uint64_t hash = HashTokens(0, tokens);
  EXPECT_EQ(HashTokens(HashTokens(0, std::span(tokens).first(1)), std::span(tokens).subspan(1)),
            hash);
  EXPECT_NE(HashTokens(0, std::vector<Token>{2, 1, 3}), hash);
  EXPECT_NE(HashTokens(0, std::vector<Token>{1, 2}), hash);
  EXPECT_NE(HashTokens(0, std::vector<Token>{1, 2, 4}), hash);
}

TEST_F(TokenRowsTest, SaysWhatIsWrongWithALine) {
  const std::string good =
      R"({"request": {"workload": "w", "prompt_lengths": [4], "min_budget": 1, "max_budget": 2,)"
      R"( "scale": 1, "seed": 0, "load": "l", "decode_kernel": "rows", "page_size": 64,)"
      R"( "max_batch": 8, "chunk_tokens": 512, "index": 0, "prompt_tokens": 4,)"
      R"( "prompt_hash": "00000000000000ff", "tokens": [1, 2]}})";
  ASSERT_TRUE(ReadTokenRows(Write(good + "\n")).ok());
  ASSERT_TRUE(ReadTokenRows(Write(good)).ok()) << "no line break at the end";
  struct Case {
    std::string from, to, word;
  };
  const std::vector<Case> cases = {
      {R"("request")", R"("run")", "'request'"},
      {R"("workload": "w")", R"("workload": 1)", "'workload'"},
      {R"("workload": "w", )", "", "'workload'"},
      {"[4]", "[]", "prompt length"},
      {"[4]", "[0]", "'prompt_lengths'"},
      {"[4]", "4", "'prompt_lengths'"},
      {R"("max_budget": 2)", R"("max_budget": 0)", "'max_budget'"},
      {R"("min_budget": 1)", R"("min_budget": 9)", "budgets of 9 to 2"},
      {R"("scale": 1)", R"("scale": "1")", "'scale'"},
      {R"("scale": 1)", R"("scale": 1e300)", "scale"},
      {R"("scale": 1)", R"("scale": -1)", "scale"},
      {R"("seed": 0)", R"("seed": -1)", "'seed'"},
      {R"("seed": 0)", R"("seed": 0.5)", "'seed'"},
      {R"("index": 0)", R"("index": -1)", "'index'"},
      {R"("index": 0)", R"("index": 18446744073709551616)", "'index'"},
      {R"("index": 0)", R"("index": 18446744073709551615)", "'index'"},
      {R"("page_size": 64)", R"("page_size": null)", "'page_size'"},
      {"00000000000000ff", "ff", "'prompt_hash'"},
      {"00000000000000ff", "0x000000000000ff", "'prompt_hash'"},
      {"00000000000000ff", "-0000000000000ff", "'prompt_hash'"},
      {R"("00000000000000ff")", "255", "'prompt_hash'"},
      {"[1, 2]", "[]", "'tokens'"},
      {"[1, 2]", "[1, -2]", "'tokens'"},
      {"[1, 2]", "[1, 2.5]", "'tokens'"},
      {"[1, 2]", "{}", "'tokens'"},
      {"[1, 2]}}", "[1, 2", "no JSON"},
      {"[1, 2]", std::string(100000, '['), "no JSON"},
      {good, "", "no JSON"},
      {good, "7", "'request'"},
      {good, "null", "'request'"},
  };
  for (const Case& fault : cases) {
    std::string line = good;
    const size_t place = line.find(fault.from);
    ASSERT_NE(place, std::string::npos) << fault.from;
    line.replace(place, fault.from.size(), fault.to);
    const Status status = ReadTokenRows(Write(fmt::format("{}\n{}\n", good, line))).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << line.substr(0, 400);
    EXPECT_NE(status.message().find("written.jsonl, line 2"), std::string::npos);
    EXPECT_NE(status.message().find(fault.word), std::string::npos) << status.message();
  }
  EXPECT_EQ(ReadTokenRows(Write("")).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReadTokenRows(Write("{\"header\": {}}\n")).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReadTokenRows(folder_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadTokenRows(folder_ / "none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace decant
