// The tokenizer against the ids and texts of the Python `tokenizers` library, as stored in
// tests/data/tokenizer.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"

namespace decant {
namespace {

using Ids = std::vector<int32_t>;

std::vector<nlohmann::json> ReadLines(const std::string& name) {
  std::ifstream file(std::string(DECANT_TEST_DATA) + "/tokenizer/" + name);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  const Tokenizer tokenizer_ = MakeTestTokenizer(GetParam());
};

std::string SuiteName(const ::testing::TestParamInfo<const char*>& model) {
  return std::string(model.param) == "smollm2" ? "SmolLm2" : "Qwen2";
}
INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values("smollm2", "qwen2.5"), SuiteName);

TEST_P(GoldenTest, EncodesAsTheReference) {
  const std::vector<nlohmann::json> lines = ReadLines("corpus.jsonl");
  ASSERT_GE(lines.size(), 5000U);
  int parsed = 0;
  for (const nlohmann::json& line : lines) {
    const bool parse = line["parse"].get<bool>();
    parsed += parse ? 1 : 0;
    ASSERT_EQ(tokenizer_.Encode(line["text"].get<std::string>(),
                                parse ? SpecialTokens::kParse : SpecialTokens::kAsText),
              line[GetParam()].get<Ids>())
        << line.dump();
  }
  EXPECT_GE(parsed, 300);
}

TEST_P(GoldenTest, DecodesAsTheReference) {
  int count = 0;
  for (const nlohmann::json& line : ReadLines("decoded.jsonl")) {
    if (line["model"] != GetParam()) continue;
    ++count;
    const Ids ids = line["ids"].get<Ids>();
    ASSERT_EQ(tokenizer_.Decode(ids, ControlTokens::kShow), line["shown"]) << line.dump();
    ASSERT_EQ(tokenizer_.Decode(ids, ControlTokens::kHide), line["hidden"]) << line.dump();
  }
  EXPECT_EQ(count, 400);
}

TEST_P(GoldenTest, StreamsWhatItDecodes) {
  for (const nlohmann::json& line : ReadLines("decoded.jsonl")) {
    if (line["model"] != GetParam()) continue;
    Detokenizer detokenizer(tokenizer_, ControlTokens::kHide);
    std::string text;
    for (const int32_t id : line["ids"].get<Ids>()) text += detokenizer.Push(id);
    text += detokenizer.Flush();
    ASSERT_EQ(text, line["hidden"]) << line.dump();
  }
}

}  // namespace
}  // namespace decant
