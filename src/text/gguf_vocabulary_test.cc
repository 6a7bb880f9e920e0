#include "text/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "text/test_vocabulary.h"
#include "text/tokenizer.h"

namespace decant {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

Tokenizer Make(GgufVocabulary vocabulary) {
  return Tokenizer::Create(MakeGgufTokenizerData(std::move(vocabulary)).value()).value();
}

/// The pipelines that GGUF files name, on the vocabularies of the families that have the same.
TEST(GgufVocabularyTest, SplitsAsTheFamiliesDo) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"llama3", "llama-bpe"},
      {"qwen2", "qwen2"},
      {"gpt2", "gpt-2"},
      {"smollm", "smollm"},
      {"deepseek llm", "deepseek-llm"},
      {"deepseek coder", "deepseek-coder"}};
  std::istringstream file(ReadTestGz("tokenizer_kinds/families.jsonl.gz"));
  std::vector<Json> entries;
  for (std::string line; std::getline(file, line);) entries.push_back(Json::parse(line));
  size_t compared = 0;
  for (const Json& entry : entries) {
    for (const auto& [family, pre] : names) {
      if (entry.value("name", "") != family) continue;
      SCOPED_TRACE(pre);
      const Json& model = entries.back()["models"][entry["model"].get<size_t>()];
      GgufVocabulary vocabulary{.model = "gpt2", .pre = pre};
      vocabulary.tokens.resize(model["vocab"].size());
      for (const auto& [token, id] : model["vocab"].items()) {
        vocabulary.tokens[id.get<size_t>()] = token;
      }
      for (const Json& merge : model["merges"]) {
        vocabulary.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                                      : merge[0].get<std::string>() + " " +
                                                            merge[1].get<std::string>());
      }
      const Tokenizer tokenizer = Make(std::move(vocabulary));
      EXPECT_FALSE(tokenizer.add_bos());
      for (const Json& line : entry["cases"]) {
        // These have tokens beyond the model's vocabulary where they have control tokens.
        if (line.size() > 2) continue;
        ++compared;
        ASSERT_EQ(tokenizer.Encode(line[0].get<std::string>(), SpecialTokens::kAsText),
                  line[1].get<Ids>())
            << line[0].dump();
      }
    }
  }
  EXPECT_GT(compared, 500U);
}

/// "a" to "d" with tokens of two and four by score, as SentencePiece has them.
GgufVocabulary Scored() {
  return {.model = "llama",
          .tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "ba", "abab", "\u2581", "<0x63>"},
          .types = {2, 3, 3, 1, 1, 1, 1, 1, 1, 6},
          .scores = {0, 0, 0, -9, -9, -1, -1, -2, -9, 0},
          .bos = 1,
          .eos = 2,
          .unknown = 0};
}

TEST(GgufVocabularyTest, MergesByScoreThenLeftmost) {
  const Tokenizer tokenizer = Make(Scored());
  using enum SpecialTokens;
  EXPECT_EQ(tokenizer.Encode("aba", kAsText), (Ids{8, 5, 3}));
  EXPECT_EQ(tokenizer.Encode("bab", kAsText), (Ids{8, 6, 4}));
  EXPECT_EQ(tokenizer.Encode("abab", kAsText), (Ids{8, 7}));
  EXPECT_EQ(tokenizer.Encode("acxyb", kAsText), (Ids{8, 3, 9, 0, 4}));
  EXPECT_EQ(tokenizer.Encode("a</s>b", kParse), (Ids{8, 3, 2, 8, 4}));
  EXPECT_EQ(tokenizer.Encode("a", kParse, AddedAround::kPrefixAndSuffix), (Ids{1, 8, 3}));
  EXPECT_EQ(tokenizer.Decode(Ids{1, 8, 3, 8, 9}, ControlTokens::kHide), "a c");
  EXPECT_EQ(tokenizer.TokenBytes(9), "c");
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_TRUE(tokenizer.is_eos(2));

  GgufVocabulary plain = Scored();
  plain.add_space_prefix = false;
  plain.add_bos = false;
  plain.add_eos = true;
  EXPECT_EQ(Make(std::move(plain)).Encode("a", kParse, AddedAround::kPrefixAndSuffix), (Ids{3, 2}));
}

TEST(GgufVocabularyTest, RefusesByName) {
  const auto refused = [](void (*damage)(GgufVocabulary&), StatusCode code,
                          const std::string& message) {
    GgufVocabulary vocabulary = Scored();
    damage(vocabulary);
    const Expected<TokenizerData> data = MakeGgufTokenizerData(std::move(vocabulary));
    const Status status = data.ok() ? Tokenizer::Create(*data).status() : data.status();
    EXPECT_EQ(status.code(), code) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.ToString();
  };
  using enum StatusCode;
  refused([](auto& v) { v.model = std::string("t5"); }, kUnimplemented,
          "'t5' is not supported; supported: gpt2");
  refused(
      [](auto& v) {
        v.model = std::string("gpt2");
        v.pre = std::string("bert");
      },
      kUnimplemented, "'bert' is not supported");
  refused([](auto& v) { v.scores.pop_back(); }, kInvalidArgument, "10 tokens but 9 scores");
  refused([](auto& v) { v.types.pop_back(); }, kInvalidArgument, "10 tokens but 9 token types");
  refused([](auto& v) { v.types[3] = 7; }, kInvalidArgument, "token type 7");
  refused([](auto& v) { v.scores[3] = std::numeric_limits<float>::quiet_NaN(); }, kInvalidArgument,
          "the score of token 3 is not a number");
  refused([](auto& v) { v.unknown = 10; }, kInvalidArgument, "the unknown token is 10");
  refused([](auto& v) { v.bos = -1; }, kInvalidArgument, "the bos token is -1");
  refused([](auto& v) { v.tokens[4] = std::string("a"); }, kInvalidArgument,
          "tokens 3 and 4 are both 'a'");
  refused(
      [](auto& v) {
        v.bos.reset();
        v.add_bos = true;
      },
      kInvalidArgument, "there is none");
  refused([](auto& v) { v = GgufVocabulary{.model = "llama"}; }, kInvalidArgument, "no tokens");
}

}  // namespace
}  // namespace decant
