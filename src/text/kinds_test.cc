// Tokenizers of every kind against the Python `tokenizers` library (and `sentencepiece` for
// vocabularies by score), as stored in tests/data/tokenizer_kinds.

#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/sanitized.h"
#include "text/detokenizer.h"
#include "text/gguf_vocabulary.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace decant {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;

std::vector<Json> ReadLines(const std::string& name) {
  std::istringstream file(ReadTestGz("tokenizer_kinds/" + name + ".jsonl.gz"));
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::string Stream(const Tokenizer& tokenizer, const Ids& ids, ControlTokens control) {
  Detokenizer detokenizer(tokenizer, control);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Flush();
}

class KindsTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Groups, KindsTest,
                         ::testing::Values("families", "splits", "normalizers", "added",
                                           "decoders"),
                         [](const auto& group) { return std::string(group.param); });

TEST_P(KindsTest, EncodesAndDecodesAsTheReference) {
  std::vector<Json> entries = ReadLines(GetParam());
  ASSERT_GT(entries.size(), 10U);
  const Json models = entries.back()["models"];
  entries.pop_back();
  for (Json& entry : entries) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    Json file = entry["tokenizer"];
    file["model"] = models[entry["model"].get<size_t>()];
    Expected<TokenizerData> data = ReadTokenizerJson(file.dump(), "tokenizer.json");
    ASSERT_TRUE(data.ok()) << data.status().ToString();
    const Expected<Tokenizer> tokenizer = Tokenizer::Create(std::move(data).value());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    for (const Json& line : entry["cases"]) {
      const auto text = line[0].get<std::string>();
      const Ids plain = line[1].get<Ids>();
      const Ids parsed = line.size() > 2 ? line[2].get<Ids>() : plain;
      const Ids around = line.size() > 3 ? line[3].get<Ids>() : parsed;
      ASSERT_EQ(tokenizer->Encode(text, SpecialTokens::kAsText), plain) << line[0].dump();
      ASSERT_EQ(tokenizer->Encode(text, SpecialTokens::kParse), parsed) << line[0].dump();
      ASSERT_EQ(tokenizer->Encode(text, SpecialTokens::kParse, AddedAround::kPrefixAndSuffix),
                around)
          << line[0].dump();
    }
    for (const Json& line : entry["decodes"]) {
      const Ids ids = line[0].get<Ids>();
      ASSERT_EQ(tokenizer->Decode(ids, ControlTokens::kShow), line[1]) << line.dump();
      ASSERT_EQ(Stream(*tokenizer, ids, ControlTokens::kShow), line[1]) << line.dump();
      if (line[2].is_null()) continue;
      ASSERT_EQ(tokenizer->Decode(ids, ControlTokens::kHide), line[2]) << line.dump();
      ASSERT_EQ(Stream(*tokenizer, ids, ControlTokens::kHide), line[2]) << line.dump();
    }
  }
}

TEST(ByScoreTest, EncodesAndDecodesAsSentencePiece) {
  const std::vector<Json> entries = ReadLines("by_score");
  ASSERT_EQ(entries.size(), 3U);
  for (const Json& entry : entries) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    GgufVocabulary vocabulary;
    vocabulary.model = "llama";
    vocabulary.tokens = entry["tokens"].get<std::vector<std::string>>();
    vocabulary.scores = entry["scores"].get<std::vector<float>>();
    vocabulary.types = entry["types"].get<std::vector<int32_t>>();
    vocabulary.unknown = 0;
    vocabulary.bos = 1;
    vocabulary.add_space_prefix = entry["prefix"].get<bool>();
    Expected<TokenizerData> data = MakeGgufTokenizerData(std::move(vocabulary));
    ASSERT_TRUE(data.ok()) << data.status().ToString();
    const Expected<Tokenizer> tokenizer = Tokenizer::Create(std::move(data).value());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    EXPECT_TRUE(tokenizer->add_bos());
    for (const Json& line : entry["cases"]) {
      ASSERT_EQ(tokenizer->Encode(line[0].get<std::string>(), SpecialTokens::kAsText),
                line[1].get<Ids>())
          << line[0].dump();
    }
    for (const Json& line : entry["decodes"]) {
      const Ids ids = line[0].get<Ids>();
      ASSERT_EQ(tokenizer->Decode(ids, ControlTokens::kShow), line[1]) << line.dump();
      ASSERT_EQ(Stream(*tokenizer, ids, ControlTokens::kShow), line[1]) << line.dump();
    }
  }
}

/// The file of a family, whole.
std::string FamilyFile(const std::string& name) {
  const std::vector<Json> entries = ReadLines("families");
  for (const Json& entry : entries) {
    if (entry.value("name", "") != name) continue;
    Json file = entry["tokenizer"];
    file["model"] = entries.back()["models"][entry["model"].get<size_t>()];
    return file.dump();
  }
  return {};
}

/// Processor seconds of this thread, which a busy machine does not stretch.
double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

constexpr double kMostSeconds = kSanitized ? 20 : 1;

TEST(HostileTest, TakesASecondAtMostForAMegabyteOfHostileText) {
  std::string marks;  // Two combining classes in turn: the worst order to sort.
  for (int i = 0; i < 64; ++i) marks += "\u0301\u0323";
  for (const std::string name :
       {"llama2", "llama2 across words", "mistral first False", "llama3", "deepseek llm"}) {
    Expected<TokenizerData> data = ReadTokenizerJson(FamilyFile(name), name);
    ASSERT_TRUE(data.ok()) << data.status().ToString();
    const Tokenizer tokenizer = Tokenizer::Create(std::move(data).value()).value();
    for (const std::string& unit : {std::string("a"), std::string(" "), std::string("a "),
                                    std::string("1"), std::string("\n"), std::string("  1"),
                                    std::string("\u2581"), std::string("<s>"), "e" + marks}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const double begin = ThreadSeconds();
      tokenizer.Encode(text, SpecialTokens::kParse);
      EXPECT_LT(ThreadSeconds() - begin, kMostSeconds) << name << ": " << unit;
    }
  }
}

TEST(HostileTest, LivesThroughDamagedFiles) {
  const CounterRng rng(31);
  uint64_t counter = 0;
  const auto below = [&](uint64_t bound) { return rng.Below(counter++, bound); };
  const std::string inside = "019aAbepxN+*?.|<> ";
  const std::string parts = R"("0{}[],:\-1e9truenull.*+?()|\\pLN<>x▁ )";
  int loaded = 0;
  for (const std::string name : {"llama2", "gemma", "llama3", "deepseek llm"}) {
    const std::string whole = FamilyFile(name);
    // What stands before the vocabulary or after it holds the steps; the rest are tokens.
    const size_t model = whole.find("\"model\"");
    for (int round = 0; round < 400; ++round) {
      std::string file = whole;
      for (uint64_t edits = 1 + below(3); edits > 0; --edits) {
        size_t at = below(file.size());
        while (at > model && at < file.size() - 4000 && below(20) > 0) at = below(file.size());
        file[at] = round % 2 == 0 ? parts[below(parts.size())] : inside[below(inside.size())];
      }
      Expected<TokenizerData> data = ReadTokenizerJson(file, name);
      if (!data.ok()) continue;
      const Expected<Tokenizer> tokenizer = Tokenizer::Create(std::move(data).value());
      if (!tokenizer.ok()) continue;
      ++loaded;
      const Ids ids = tokenizer->Encode("Hello <s> 12 \u65e5\u672c\n", SpecialTokens::kParse,
                                        AddedAround::kPrefixAndSuffix);
      EXPECT_EQ(Stream(*tokenizer, ids, ControlTokens::kShow),
                tokenizer->Decode(ids, ControlTokens::kShow));
    }
  }
  EXPECT_GT(loaded, 10) << "too few to show anything";
}

/// tokenizer.json's way to say what the stored vocabulary of Qwen2.5 says.
std::string QwenJson(const TokenizerData& data) {
  Json vocab = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const TokenType type = data.types[id];
    if (type == TokenType::kNormal) {
      vocab[data.tokens[id]] = id;
    } else {
      added.push_back({{"id", id},
                       {"content", data.tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type == TokenType::kControl}});
    }
  }
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const std::string pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
      R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return Json{{"version", "1.0"},
              {"added_tokens", added},
              {"normalizer", {{"type", "NFC"}}},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
              {"decoder", byte_level},
              {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", data.merges}}}}
      .dump();
}

TEST(TokenizerJsonTest, GivesWhatTheStoredVocabularyGives) {
  const TokenizerData stored = ReadTestVocabulary("qwen2.5");
  Expected<TokenizerData> read = ReadTokenizerJson(QwenJson(stored), "tokenizer.json");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->tokens, stored.tokens);
  EXPECT_EQ(read->types, stored.types);
  EXPECT_EQ(read->merge_rules.size(), stored.merges.size());
  const Tokenizer from_json = Tokenizer::Create(std::move(read).value()).value();
  const Tokenizer from_stored = Tokenizer::Create(stored).value();
  std::istringstream texts(ReadTestGz("tokenizer_kinds/families.jsonl.gz"));
  std::string line;
  for (int number = 0; number < 4 && std::getline(texts, line); ++number) {
    const std::string text = line.substr(0, 40'000);
    EXPECT_EQ(from_json.Encode(text, SpecialTokens::kParse),
              from_stored.Encode(text, SpecialTokens::kParse));
  }
}

}  // namespace
}  // namespace decant
