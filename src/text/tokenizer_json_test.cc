#include "text/tokenizer_json.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/normalizer.h"
#include "text/tokenizer.h"

namespace decant {
namespace {

using Json = nlohmann::json;

Json SmallFile() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 4, "content": "<s>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
              "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3}, "merges": ["a b"]}})");
}

Status StatusOf(const std::string& text) {
  Expected<TokenizerData> data = ReadTokenizerJson(text, "dir/tokenizer.json");
  if (!data.ok()) {
    EXPECT_TRUE(data.status().message().starts_with("dir/tokenizer.json: "))
        << data.status().message();
    return data.status();
  }
  return Tokenizer::Create(std::move(data).value()).status();
}

void ExpectRefused(const std::string& text, StatusCode code, const std::string& message) {
  const Status status = StatusOf(text);
  EXPECT_EQ(status.code(), code) << status.ToString() << "\nfor: " << message;
  EXPECT_NE(status.message().find(message), std::string::npos)
      << status.ToString() << "\nshould hold: " << message;
}

TEST(TokenizerJsonTest, RefusesMalformedFiles) {
  struct Case {
    std::function<void(Json&)> damage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Json& f) { f["version"] = 1; }, "version is number, not a string"},
      {[](Json& f) { f.erase("model"); }, "model is missing"},
      {[](Json& f) { f["model"] = "BPE"; }, "model is missing or not an object"},
      {[](Json& f) { f["model"].erase("vocab"); }, "model.vocab is missing"},
      {[](Json& f) { f["model"]["vocab"] = Json::array(); }, "model.vocab is missing"},
      {[](Json& f) { f["model"]["vocab"] = Json::object(); }, "model.vocab is empty"},
      {[](Json& f) { f["model"]["vocab"]["b"] = "1"; }, "the id of 'b' is not a number"},
      {[](Json& f) { f["model"]["vocab"]["b"] = -1; }, "the id of 'b' is not a number"},
      {[](Json& f) { f["model"]["vocab"]["b"] = 1.5; }, "the id of 'b' is not a number"},
      {[](Json& f) { f["model"]["vocab"]["b"] = nullptr; }, "the id of 'b' is not a number"},
      {[](Json& f) { f["model"]["vocab"]["b"] = Json::object(); }, "the id of 'b' is not a number"},
      {[](Json& f) { f["model"]["vocab"]["b"] = 1ULL << 31U; }, "an id is 2147483648"},
      {[](Json& f) { f["model"]["vocab"]["b"] = 1ULL << 32U; }, "the id of 'b' is 4294967296"},
      {[](Json& f) { f["model"]["vocab"]["b"] = 5'000'000; }, "has 4 tokens, but an id is 5000000"},
      {[](Json& f) { f["model"]["vocab"]["b"] = 300'000; }, "has 4 tokens, but an id is 300000"},
      {[](Json& f) { f["model"]["vocab"]["b"] = 3; }, "both have id 3"},
      {[](Json& f) { f["model"].erase("merges"); }, "model.merges is missing"},
      {[](Json& f) { f["model"]["merges"] = Json::array({"a b c"}); }, "'a b c' is not two tokens"},
      {[](Json& f) { f["model"]["merges"] = Json::array({"ab"}); }, "'ab' is not two tokens"},
      {[](Json& f) { f["model"]["merges"] = Json::array({1}); }, "a merge is not two strings"},
      {[](Json& f) {
         f["model"]["merges"] = Json::array({Json::array({"a", 1})});
       },
       "a merge is not two strings"},
      {[](Json& f) {
         f["model"]["merges"] = Json::array({Json::array({"a", "b", "c"})});
       },
       "more than two"},
      {[](Json& f) { f["model"]["merges"] = Json::array({Json::array({"a"})}); }, "less than two"},
      {[](Json& f) {
         f["model"]["merges"] = Json::array({Json::array({"a", Json::array()})});
       },
       "a merge is not two strings"},
      {[](Json& f) { f["model"]["merges"] = Json::array({"a x"}); },
       "merges[0]: 'x' is not in the vocabulary"},
      {[](Json& f) { f["model"]["merges"] = Json::array({"x a"}); },
       "merges[0]: 'x' is not in the vocabulary"},
      {[](Json& f) { f["model"]["merges"] = Json::array({"b c"}); },
       "merges[0]: 'bc' is not in the vocabulary"},
      {[](Json& f) { f["model"]["unk_token"] = "<unk>"; }, "'<unk>', is not in the vocabulary"},
      {[](Json& f) { f["model"]["unk_token"] = 0; }, "model.unk_token is number, not a string"},
      {[](Json& f) { f["model"]["byte_fallback"] = "yes"; }, "not true or false"},
      {[](Json& f) { f["added_tokens"] = 3; }, "added_tokens is number, not a list"},
      {[](Json& f) { f["added_tokens"][0] = "<s>"; }, "added_tokens[0].content is missing"},
      {[](Json& f) { f["added_tokens"][0]["lstrip"] = 0; }, "[0].lstrip is number"},
      {[](Json& f) { f["added_tokens"][0].erase("special"); }, "[0].special is missing"},
      {[](Json& f) { f["added_tokens"][0]["id"] = -1; }, "[0].id is number, not a number from 0"},
      {[](Json& f) { f["model"]["vocab"]["c"] = 4; }, "its id, 4, belongs to 'c'"},
      {[](Json& f) { f["normalizer"] = "NFC"; }, "normalizer.type is missing"},
      {[](Json& f) {
         f["normalizer"] = {{"type", 7}};
       },
       "normalizer.type is number"},
      {[](Json& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", 1}};
       },
       "normalizer.normalizers is number, not a list"},
      {[](Json& f) {
         f["normalizer"] = {{"type", "Prepend"}};
       },
       "normalizer.prepend is missing"},
      {[](Json& f) {
         f["normalizer"] = {{"type", "Replace"}, {"pattern", "a"}, {"content", ""}};
       },
       "normalizer.pattern.Regex is missing"},
      {[](Json& f) {
         f["pre_tokenizer"] = {{"type", "Digits"}};
       },
       "individual_digits is missing"},
      {[](Json& f) {
         f["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", "_"},
                               {"prepend_scheme", "first"},
                               {"add_prefix_space", false}};
       },
       "add_prefix_space is false but prepend_scheme is 'first'"},
      {[](Json& f) {
         f["decoder"] = {{"type", "Strip"}, {"content", " "}, {"start", 1ULL << 40U}, {"stop", 0}};
       },
       "decoder.start is number, not a number from 0 to 2^32 - 1"},
      {[](Json& f) {
         f["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}},
                                {"special_tokens", Json::object()}};
       },
       "special_tokens.<s>.ids is missing"},
      {[](Json& f) {
         f["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"a", 1ULL << 31U}}};
       },
       "post_processor.cls[1] is 2147483648, which is no token"},
  };
  ASSERT_TRUE(StatusOf(SmallFile().dump()).ok());
  for (const Case& c : cases) {
    Json file = SmallFile();
    c.damage(file);
    ExpectRefused(file.dump(), StatusCode::kDataLoss, c.message);
  }
}

TEST(TokenizerJsonTest, RefusesWhatIsNotSupportedByName) {
  const auto refused = [](const std::string& key, const Json& value, const std::string& message) {
    Json file = SmallFile();
    file[Json::json_pointer(key)] = value;
    ExpectRefused(file.dump(), StatusCode::kUnimplemented, message);
  };
  refused("/version", "2.0", "version: version '2.0'");
  for (const std::string type : {"Unigram", "WordPiece", "WordLevel", "Other"}) {
    refused("/model/type", type, "model: the model type '" + type + "'");
  }
  refused("/model/continuing_subword_prefix", "##", "model: continuing_subword_prefix '##'");
  refused("/model/end_of_word_suffix", "</w>", "model: end_of_word_suffix '</w>'");
  refused("/model/dropout", 0.1, "model: dropout");
  for (const std::string type : {"Lowercase", "Precompiled", "BertNormalizer", "StripAccents"}) {
    refused("/normalizer", {{"type", type}}, "normalizer: the normalizer '" + type + "'");
  }
  refused("/pre_tokenizer", {{"type", "UnicodeScripts"}}, "the pre-tokenizer 'UnicodeScripts'");
  refused("/decoder", {{"type", "CTC"}}, "decoder: the decoder 'CTC'");
  refused("/post_processor", {{"type", "Other"}}, "post_processor: the post-processor 'Other'");
  refused("/post_processor", {{"type", "TemplateProcessing"}, {"single", Json::array()}},
          "a template without the text");
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "a"}}},
                      {"behavior", "Sideways"},
                      {"invert", false}};
  refused("/pre_tokenizer", split, "pre_tokenizer.behavior: 'Sideways'");
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  refused("/pre_tokenizer",
          {{"type", "Sequence"}, {"pretokenizers", {byte_level, {{"type", "Whitespace"}}}}},
          "ByteLevel before another step");
  refused("/decoder",
          {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, {{"type", "ByteFallback"}}}}},
          "decoder step 1");
}

TEST(TokenizerJsonTest, RefusesBadPatternsAndTokensOfTheWrongKind) {
  Json file = SmallFile();
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(a"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  ExpectRefused(file.dump(), StatusCode::kInvalidArgument,
                "pre-tokenizer step 0: pattern '(a': missing closing parenthesis");
  file["pre_tokenizer"]["pattern"] = {{"Regex", "(a*)*b"}};
  ExpectRefused(file.dump(), StatusCode::kUnimplemented, "grows faster than the text");
  file = SmallFile();
  file["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(30, 'a')}};
  EXPECT_TRUE(StatusOf(file.dump()).ok());
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {file["normalizer"], file["normalizer"]}}};
  ExpectRefused(file.dump(), StatusCode::kInvalidArgument, "text may grow 900 times");
  file = SmallFile();
  file["added_tokens"][0]["content"] = std::string(600, 'x');
  ExpectRefused(file.dump(), StatusCode::kInvalidArgument, "added token 4 has 600 bytes");
  file = SmallFile();
  file["added_tokens"][0]["content"] = "ab";
  ExpectRefused(file.dump(), StatusCode::kInvalidArgument,
                "its result, 'ab', is token 2, which is not a normal token");
  file = SmallFile();
  file["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"a", 9}}, {"sep", {"b", 1}}};
  ExpectRefused(file.dump(), StatusCode::kInvalidArgument, "the bos token is 9");
}

TEST(TokenizerJsonTest, RefusesWhatIsNoJsonOfThisKind) {
  const std::string whole = SmallFile().dump();
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_EQ(StatusOf(whole.substr(0, size)).code(), StatusCode::kDataLoss) << size;
  }
  ExpectRefused("[]", StatusCode::kDataLoss, "not a JSON object");
  ExpectRefused("\xFF\xFE", StatusCode::kDataLoss, "not JSON at byte");
  ExpectRefused(R"({"a": "\ud800"})", StatusCode::kDataLoss, "not JSON at byte");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"normalizer":[)";
  ExpectRefused(deep, StatusCode::kDataLoss, "nested more than 64 deep");
  deep = whole;
  std::string sequences = R"({"type":"NFC"})";
  for (int i = 0; i < 40; ++i) {
    sequences = R"({"type":"Sequence","normalizers":[)" + sequences + "]}";
  }
  Json file = SmallFile();
  file["pre_tokenizer"] = Json::parse(sequences);
  ExpectRefused(file.dump(), StatusCode::kDataLoss, "nested more than 64 deep");
  std::string many = R"({"a":[0)";
  for (int i = 0; i < 2'100'000; ++i) many += ",0";
  ExpectRefused(many + "]}", StatusCode::kDataLoss, "more than 2000000 values");
}

TEST(TokenizerJsonTest, LetsTheLastOfTwoCountAndGapsBe) {
  const std::string text = R"({"model": {"type": "BPE",
      "vocab": {"a": 9, "b": 1, "ab": 2, "ba": 5, "a": 0}, "merges": ["a b", "b a", "a b"]}})";
  Expected<TokenizerData> data = ReadTokenizerJson(text, "tokenizer.json");
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  ASSERT_EQ(data->tokens.size(), 6U);
  EXPECT_EQ(data->tokens[0], "a");
  EXPECT_EQ(data->types[3], TokenType::kUnused);
  const Tokenizer tokenizer = Tokenizer::Create(std::move(data).value()).value();
  EXPECT_EQ(tokenizer.Encode("aba", SpecialTokens::kAsText), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(tokenizer.type(3), TokenType::kUnused);
}

/// Files that would take gigabytes to load, or to encode a little text with, were they taken at
/// their word.
TEST(TokenizerJsonTest, NoFileTakesGigabytes) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  const auto with = [](auto&& damage) {
    Json file = SmallFile();
    damage(file);
    return file.dump();
  };
  const auto pattern = [&](const std::string& regex) {
    return with([&](Json& f) {
      f["pre_tokenizer"] = {{"type", "Split"},
                            {"pattern", {{"Regex", regex}}},
                            {"behavior", "Isolated"},
                            {"invert", false}};
    });
  };
  EXPECT_FALSE(StatusOf(pattern("(?:(?:(?:a{1000}){1000}){1000}){1000}")).ok());
  EXPECT_FALSE(StatusOf(pattern("(?:(?:\\p{L}{9999}){9999})+")).ok());
  EXPECT_FALSE(StatusOf(pattern(std::string(1'000'000, '('))).ok());
  EXPECT_FALSE(StatusOf(with([](Json& f) { f["model"]["vocab"]["b"] = 2'147'483'647; })).ok());
  // Added tokens have the ids that follow, as in the reference, whatever the file says.
  EXPECT_TRUE(StatusOf(with([](Json& f) { f["added_tokens"][0]["id"] = 2'147'483'647; })).ok());
  EXPECT_FALSE(
      StatusOf(with([](Json& f) { f["model"]["vocab"][std::string(20'000'000, 'x')] = 4; })).ok());
  std::string nested = "{\"model\":";
  for (int i = 0; i < 5'000'000; ++i) nested += '[';
  EXPECT_FALSE(StatusOf(nested).ok());

  // What grows most of what is allowed.
  constexpr size_t kBytes = 100'000;
  const auto grown = [&](size_t times) {
    return with([&](Json& f) {
      f["normalizer"] = {{"type", "Replace"},
                         {"pattern", {{"String", "a"}}},
                         {"content", std::string(times, 'b')}};
    });
  };
  EXPECT_FALSE(StatusOf(grown(Normalizer::kMaxGrowth + 1)).ok());
  Expected<TokenizerData> data = ReadTokenizerJson(grown(Normalizer::kMaxGrowth), "t");
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  const Tokenizer tokenizer = Tokenizer::Create(std::move(data).value()).value();
  EXPECT_EQ(tokenizer.Encode(std::string(kBytes, 'a'), SpecialTokens::kParse).size(),
            kBytes * Normalizer::kMaxGrowth);
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  constexpr int64_t kKibibytesAllowed = 1 << 20;
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, kKibibytesAllowed);
}

}  // namespace
}  // namespace decant
